// What a client in TypeScript makes of the description: this has to compile.

import type { components, operations, paths } from "./generated";

type Body<P> = P extends { content: { "application/json": infer B } } ? B : never;

export type Task = Body<NonNullable<paths["/v1/sessions/{session}/turns"]["post"]["requestBody"]>>;
export type Sessions = Body<operations["sessions_list"]["responses"][200]>;
export type Refused = operations["turns_create"]["responses"][422]["content"]["application/problem+json"];

export const task: Task = { task: "When do we ship?" };
export const first = (page: Sessions): components["schemas"]["SessionListItem"] | undefined => page.items[0];
export const why = (problem: Refused): string => `${problem.code}: ${problem.detail}`;
