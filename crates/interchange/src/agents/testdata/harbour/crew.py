from crewai import Agent, Crew, Process, Task
from crewai.project import CrewBase, agent, crew, task


@CrewBase
class Harbour:
    agents_config = "config/agents.yaml"
    tasks_config = "config/tasks.yaml"

    @agent
    def tide_reader(self) -> Agent:
        return Agent(config=self.agents_config["tide_reader"], tools=[TideTable()], llm="x/y")

    @task
    def tide_task(self) -> Task:
        return Task(config=self.tasks_config["tide_task"])

    @task
    def berth_task(self) -> Task:
        return Task(
            config=self.tasks_config["berth_task"],
            output_pydantic=Berth,
            async_execution=True,
        )

    @task
    def sign_task(self) -> Task:
        return Task(config=self.tasks_config["sign_task"])

    @task
    def gulls_task(self) -> Task:
        return Task(config=self.tasks_config["gulls_task"])

    @crew
    def crew(self) -> Crew:
        return Crew(
            agents=self.agents,
            tasks=self.tasks,
            process=Process.sequential,
            # process=Process.hierarchical,
        )
