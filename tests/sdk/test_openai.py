"""OpenAI's Python client, unchanged, against the daemon."""

import base64
import struct
import subprocess
import unittest
import zlib

import langchain_openai
import openai
import pydantic

from daemon import ROOT, Daemon

TALK = [
    {"role": "system", "content": "You help a small shop."},
    {"role": "user", "content": "We decided to move the orders database on Friday 6 March."},
    {"role": "assistant", "content": "Noted: the orders database moves on Friday 6 March."},
    {"role": "user", "content": "When does the orders database move?"},
]
WEATHER = {
    "name": "weather",
    "description": "The weather somewhere.",
    "parameters": {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]},
}


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


PIXEL = b"\x89PNG\r\n\x1a\n" + b"".join([
    chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)),
    chunk(b"IDAT", zlib.compress(b"\0\x20\x40\x60")),
    chunk(b"IEND", b""),
])
PLAN = "data:application/pdf;base64," + base64.b64encode(b"%PDF-1.7\n<< /Type /Page >>\n%%EOF\n").decode()


class Meeting(pydantic.BaseModel):
    """When something is."""

    day: str = pydantic.Field(description="The day's name")
    hour: int


class OpenAi(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model = subprocess.Popen(
            ["node", str(ROOT / "tests/sdk/model.mjs")], text=True, stdout=subprocess.PIPE,
        )
        settings = "".join(iter(cls.model.stdout.readline, "---\n"))
        cls.daemon = Daemon(settings, TEST_KEY="sk-test-0000")
        cls.client = cls.of(cls.daemon.token)

    @classmethod
    def of(cls, token):
        return openai.OpenAI(base_url=f"{cls.daemon.url}/openai/v1", api_key=token, max_retries=0)

    @classmethod
    def tearDownClass(cls):
        cls.daemon.stop()
        cls.model.terminate()
        cls.model.communicate(timeout=60)

    def test_models_are_agents_and_the_team(self):
        names = [model.id for model in self.client.models.list()]
        self.assertIn("team", names)
        self.assertIn("facts", names)

    def test_a_completion_whole_and_streamed(self):
        whole = self.client.chat.completions.create(model="facts", messages=TALK)
        text = whole.choices[0].message.content
        self.assertIn("6 March", text)
        self.assertEqual(whole.choices[0].finish_reason, "stop")
        self.assertGreater(whole.usage.total_tokens, 0)
        for usage in (True, False):
            chunks = list(self.client.chat.completions.create(
                model="facts", messages=TALK, stream=True,
                stream_options={"include_usage": usage},
            ))
            said = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
            self.assertEqual(said, text)
            self.assertEqual(chunks[-1].usage, whole.usage if usage else None)

    def test_a_response_whole_and_streamed(self):
        asked = {"model": "facts", "input": TALK[1:], "instructions": "You help a small shop."}
        whole = self.client.responses.create(**asked)
        self.assertEqual(whole.status, "completed")
        self.assertIn("6 March", whole.output_text)
        self.assertGreater(whole.usage.total_tokens, 0)
        with self.client.responses.stream(**asked) as stream:
            pieces = [e.delta for e in stream if e.type == "response.output_text.delta"]
            final = stream.get_final_response()
        self.assertEqual("".join(pieces), whole.output_text)
        self.assertEqual(final.output_text, whole.output_text)
        self.assertEqual(final.usage, whole.usage)
        alone = self.client.responses.create(model="team", input="Which day is it?")
        self.assertTrue(alone.output_text)

    def test_a_call_of_the_clients_tool_and_its_result(self):
        messages = [{"role": "user", "content": "How warm is it in Bern?"}]
        tools = [{"type": "function", "function": WEATHER}]
        left = self.client.chat.completions.create(model="clerk", messages=messages, tools=tools)
        self.assertEqual(left.choices[0].finish_reason, "tool_calls")
        with self.client.chat.completions.stream(
            model="clerk", messages=messages, tools=tools, tool_choice="required",
        ) as stream:
            streamed = stream.get_final_completion()
        for answer in (left, streamed):
            said = answer.choices[0].message
            call = said.tool_calls[0]
            self.assertEqual((call.function.name, call.function.arguments), ("weather", '{"place":"Bern"}'))
            result = {"role": "tool", "tool_call_id": call.id, "content": "12 degrees"}
            told = self.client.chat.completions.create(
                model="clerk", tools=tools,
                messages=[*messages, said.model_dump(exclude_none=True), result],
            )
            self.assertEqual(told.choices[0].message.content, "Told: #3 12 degrees")
            self.assertEqual(told.choices[0].finish_reason, "stop")

    def test_a_response_calls_a_function(self):
        asked = {"model": "clerk", "tools": [{"type": "function", "strict": False, **WEATHER}]}
        question = {"role": "user", "content": "How warm is it in Bern?"}
        whole = self.client.responses.create(input=[question], **asked)
        with self.client.responses.stream(input=[question], **asked) as stream:
            kinds = [event.type for event in stream]
            streamed = stream.get_final_response()
        self.assertIn("response.function_call_arguments.done", kinds)
        for answer in (whole, streamed):
            call = answer.output[0]
            self.assertEqual((call.type, call.name), ("function_call", "weather"))
            output = {"type": "function_call_output", "call_id": call.call_id, "output": "12 degrees"}
            told = self.client.responses.create(
                input=[question, call.model_dump(exclude_none=True), output], **asked,
            )
            self.assertEqual(told.output_text, "Told: #3 12 degrees")

    def test_langchain_has_an_agent_answer_with_an_object(self):
        model = langchain_openai.ChatOpenAI(
            model="clerk", base_url=f"{self.daemon.url}/openai/v1", api_key=self.daemon.token, max_retries=0, max_tokens=50,
        )
        asked = model.with_structured_output(Meeting, method="json_schema")
        self.assertEqual(asked.invoke("When is it?"), Meeting(day="Friday", hour=9))

    def test_one_model_is_told(self):
        self.assertEqual(self.client.models.retrieve("clerk").id, "clerk")
        with self.assertRaises(openai.NotFoundError) as caught:
            self.client.models.retrieve("nobody")
        self.assertEqual(caught.exception.code, "model_not_found")

    def test_what_cannot_be_lent_is_refused(self):
        for model, tool in (("team", WEATHER), ("clerk", {"name": "recall"})):
            with self.assertRaises(openai.BadRequestError) as caught:
                self.client.chat.completions.create(
                    model=model, messages=TALK, tools=[{"type": "function", "function": tool}],
                )
            self.assertEqual(caught.exception.param, "tools")

    def test_what_is_refused_is_an_error_of_its_kind(self):
        with self.assertRaises(openai.NotFoundError) as caught:
            self.client.chat.completions.create(model="nobody", messages=TALK)
        self.assertEqual(caught.exception.param, "model")
        with self.assertRaises(openai.AuthenticationError):
            self.of("wrong").models.list()
        with self.assertRaises(openai.BadRequestError) as caught:
            self.client.responses.create(model="facts", input="x", previous_response_id="resp_1")
        self.assertEqual(caught.exception.param, "previous_response_id")
        image = [{"role": "user", "content": [{"type": "input_image", "image_url": "http://x/y.png"}]}]
        with self.assertRaises(openai.BadRequestError):
            self.client.responses.create(model="facts", input=image)

    def test_an_image_and_a_document_are_taken(self):
        whole = base64.b64encode(PIXEL).decode()
        url = f"data:image/png;base64,{whole}"
        talk = [{"role": "user", "content": [
            {"type": "text", "text": "What is this?"},
            {"type": "image_url", "image_url": {"url": url}},
            {"type": "file", "file": {"filename": "plan.pdf", "file_data": PLAN}},
        ]}]
        told = self.client.chat.completions.create(model="facts", messages=talk)
        self.assertTrue(told.choices)
        said = [{"role": "user", "content": [
            {"type": "input_text", "text": "What is this?"},
            {"type": "input_image", "image_url": url, "detail": "auto"},
            {"type": "input_file", "filename": "plan.pdf", "file_data": PLAN},
        ]}]
        told = self.client.responses.create(model="facts", input=said)
        self.assertEqual(told.status, "completed")
        talk[0]["content"][1]["image_url"]["url"] = url[:60]
        with self.assertRaises(openai.BadRequestError) as caught:
            self.client.chat.completions.create(model="facts", messages=talk)
        self.assertEqual(caught.exception.param, "messages")


if __name__ == "__main__":
    unittest.main()
