"""Agents of Google ADK without a model: what each one does follows from its name."""

import asyncio
import os

from google.adk.agents import BaseAgent
from google.adk.events import Event
from google.genai import types


def event(ctx, name, text, **more):
    content = types.Content(role="model", parts=[types.Part(text=text)])
    return Event(author=name, invocation_id=ctx.invocation_id, content=content, **more)


def text_of(ctx):
    parts = (ctx.user_content.parts or []) if ctx.user_content else []
    return "".join(part.text or "" for part in parts)


def mark(ctx, word):
    """Leaves a file, so that a test learns what happened within."""
    folder = os.environ.get("SCRIPTED_MARKS")
    if folder:
        with open(os.path.join(folder, f"{word}-{ctx.session.id}"), "w", encoding="utf-8"):
            pass


async def two(ctx):
    yield event(ctx, "two", "first")
    await asyncio.sleep(0.02)
    yield event(ctx, "two", "second")


async def echo(ctx):
    yield event(ctx, "echo", f"heard: {text_of(ctx)}")


async def other(ctx):
    # Not the text itself: names in it would call others.
    asked = "asked" if "Let OTHER have a look." in text_of(ctx) else "not asked"
    yield event(ctx, "other", f"joined, {asked}")


async def concludes(ctx):
    yield event(ctx, "concludes", "all is said" if "Give the conclusion." in text_of(ctx) else "taken")


async def caller(ctx):
    """Names another agent in its answer."""
    yield event(ctx, "caller", "Let OTHER have a look.")


async def pieces(ctx):
    for piece in ("one ", "two ", "three"):
        yield event(ctx, "pieces", piece, partial=True)
        await asyncio.sleep(0.01)
    yield event(ctx, "pieces", "one two three", turn_complete=True)


async def raises(ctx):
    yield event(ctx, "raises", "begun")
    raise RuntimeError("stopped midway in /home/secret/agent.py")


async def raises_at_once(ctx):
    raise RuntimeError("never began")
    yield  # An async generator.


async def says_error(ctx):
    yield Event(
        author="says_error", invocation_id=ctx.invocation_id, error_code="QUOTA", error_message="no more today"
    )


async def says_nothing(ctx):
    return
    yield  # An async generator.


async def slow(ctx):
    yield event(ctx, "slow", "begun")
    try:
        await asyncio.sleep(120)
    except asyncio.CancelledError:
        mark(ctx, "canceled")
        raise
    yield event(ctx, "slow", "done")


async def state(ctx):
    yield event(ctx, "state", f"theme is {ctx.session.state.get('theme')}")


NAMED = (two, echo, other, caller, concludes, pieces)
FAULTY = (raises, raises_at_once, says_error, says_nothing, slow, state)
AGENTS = {one.__name__: one for one in NAMED + FAULTY}


class Scripted(BaseAgent):
    async def _run_async_impl(self, ctx):
        async for one in AGENTS[self.name](ctx):
            yield one
