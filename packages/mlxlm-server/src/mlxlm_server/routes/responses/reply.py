"""A response, and the items of its output."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from mlxlm_server.answer import Answer
from mlxlm_server.blocks import Block
from mlxlm_server.running import Run

Status = Literal["in_progress", "completed", "incomplete", "failed"]


class OutputText(BaseModel):
    type: Literal["output_text"] = "output_text"
    text: str
    annotations: list[Any] = []
    logprobs: list[Any] = []


class OutputMessage(BaseModel):
    id: str
    type: Literal["message"] = "message"
    role: Literal["assistant"] = "assistant"
    status: Status
    content: list[OutputText]


class ReasoningText(BaseModel):
    type: Literal["reasoning_text"] = "reasoning_text"
    text: str


class ReasoningItem(BaseModel):
    """`summary` is empty: the reasoning itself is there."""

    id: str
    type: Literal["reasoning"] = "reasoning"
    status: Status
    summary: list[Any] = []
    content: list[ReasoningText]


class FunctionCallItem(BaseModel):
    id: str
    type: Literal["function_call"] = "function_call"
    status: Status
    call_id: str
    name: str
    arguments: str


AnyItem = OutputMessage | ReasoningItem | FunctionCallItem
OutputItem = Annotated[AnyItem, Field(discriminator="type")]


class InputDetails(BaseModel):
    cached_tokens: int
    cache_write_tokens: int = 0


class OutputDetails(BaseModel):
    reasoning_tokens: int


class Usage(BaseModel):
    input_tokens: int
    input_tokens_details: InputDetails
    output_tokens: int
    output_tokens_details: OutputDetails
    total_tokens: int


class ResponseFault(BaseModel):
    code: str
    message: str


class Incomplete(BaseModel):
    reason: Literal["max_output_tokens"] = "max_output_tokens"


class ResponseReply(BaseModel):
    id: str
    object: Literal["response"] = "response"
    created_at: int
    completed_at: int | None = None
    status: Status
    error: ResponseFault | None = None
    incomplete_details: Incomplete | None = None
    instructions: str | None
    max_output_tokens: int
    metadata: dict[str, str]
    model: str
    output: list[OutputItem]
    parallel_tool_calls: bool = True
    previous_response_id: str | None
    reasoning: dict[str, Any]
    store: bool
    temperature: float
    text: dict[str, Any]
    tool_choice: str | dict[str, Any]
    tools: list[dict[str, Any]]
    top_p: float
    truncation: Literal["disabled"] = "disabled"
    usage: Usage | None = None
    user: str | None = None


def item(run: Run, block: Block, status: Status) -> AnyItem:
    """Return a block as an item of the output; one under way is empty."""
    id = item_id(run, block)
    text = "" if status == "in_progress" else block.text
    if block.kind == "call":
        return FunctionCallItem(
            id=id, status=status, call_id=block.id, name=block.name, arguments=text
        )
    if block.kind == "reasoning":
        thoughts = [] if status == "in_progress" else [ReasoningText(text=text)]
        return ReasoningItem(id=id, status=status, content=thoughts)
    said = [] if status == "in_progress" else [OutputText(text=text)]
    return OutputMessage(id=id, status=status, content=said)


def item_id(run: Run, block: Block) -> str:
    kinds = {"reasoning": "rs", "text": "msg", "call": "fc"}
    return f"{kinds[block.kind]}_{run.id}_{block.index}"


def status_of(answer: Answer) -> Status:
    if answer.finish_reason is None:
        return "in_progress"
    return "incomplete" if answer.finish_reason == "length" else "completed"


def usage_of(run: Run) -> Usage:
    reasoning = sum(answer.reasoning_tokens for answer in run.answers)
    return Usage(
        input_tokens=run.prompt_tokens,
        input_tokens_details=InputDetails(cached_tokens=run.cached),
        output_tokens=run.completion_tokens,
        output_tokens_details=OutputDetails(reasoning_tokens=reasoning),
        total_tokens=run.prompt_tokens + run.completion_tokens,
    )
