"""Agents of Google ADK that ask: by its tool confirmation, a long-running tool, a request of input. Their model follows a script."""

import os
import uuid

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmResponse
from google.adk.tools import FunctionTool, LongRunningFunctionTool, ToolContext, request_input
from google.genai import types


def mark(tool_context, word):
    """Leaves a file for each call."""
    folder = os.environ.get("SCRIPTED_MARKS")
    if folder:
        name = f"{word}-{tool_context.session.id}-{uuid.uuid4().hex}"
        with open(os.path.join(folder, name), "w", encoding="utf-8"):
            pass


def pay(amount: int, tool_context: ToolContext) -> dict:
    """Pays."""
    mark(tool_context, "paid")
    return {"paid": amount}


def file(title: str, tool_context: ToolContext) -> dict:
    """Files a request, which somebody decides later."""
    mark(tool_context, "filed")
    return {"status": "pending", "title": title}


def send(title: str, tool_context: ToolContext) -> None:
    """Sends something, and says nothing of it."""
    mark(tool_context, "sent")


def call(name, **args):
    return types.Part(function_call=types.FunctionCall(name=name, args=args))


def pays(text, responses):
    if text == "pay both":
        if not responses:
            return [call("pay", amount=7), call("pay", amount=8)]
        return f"Paid {sorted(one['paid'] for one in responses if 'paid' in one)}."
    if not responses:
        return call("pay", amount=7) if text.startswith("pay") else f"heard {text}"
    response = responses[-1]
    if "error" in response:
        return f"Not paid: {response['error']}"
    if text == "pay twice" and response["paid"] == 7:
        return call("pay", amount=8)
    return f"Paid {response['paid']}."


def files(text, responses):
    if not responses:
        return call("file", title="x") if text.startswith("file") else f"heard {text}"
    status = responses[-1].get("status")
    if status == "pending":
        return "It is filed, and waits."
    if text == "file twice" and status == "first":
        return call("file", title="y")
    return f"It is {status}."


def sends(text, responses):
    if not responses:
        return call("send", title="x") if text.startswith("send") else f"heard {text}"
    return f"It is {responses[-1].get('status')}."


def books(text, responses):
    if not responses:
        return call("adk_request_input", message="Which day?") if text.startswith("book") else f"heard {text}"
    return f"Booked: {responses[-1]}."


ASKING = {
    "pays": (pays, FunctionTool(pay, require_confirmation=True)),
    "files": (files, LongRunningFunctionTool(file)),
    "sends": (sends, LongRunningFunctionTool(send)),
    "books": (books, request_input),
}


class Scripted(BaseLlm):
    """Says what the agent's function makes of the user's last text and the responses of tools behind it."""

    async def generate_content_async(self, llm_request, stream=False):
        text, responses = "", []
        for content in llm_request.contents:
            for part in content.parts or []:
                if part.function_response:
                    responses.append(part.function_response.response or {})
                elif part.text and content.role == "user":
                    text, responses = part.text, []
        said = ASKING[self.model][0](text, responses)
        parts = said if isinstance(said, list) else [types.Part(text=said) if isinstance(said, str) else said]
        yield LlmResponse(content=types.Content(role="model", parts=parts))


def asking(name):
    return LlmAgent(name=name, model=Scripted(model=name), tools=[ASKING[name][1]])
