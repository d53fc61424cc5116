"""A conversation with agents by OpenAI's own package; prints what it was answered as JSON."""

import json
import uuid

import openai

client = openai.OpenAI()


def user(content):
    return [{"role": "user", "content": content}]


def create(**options):
    return client.chat.completions.create(**{"model": "ATLAS", "messages": user("hello"), **options})


def streamed(**options):
    chunks = list(create(stream=True, stream_options={"include_usage": True}, **options))
    words = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    return {"words": words, "finish": chunks[-2].choices[0].finish_reason, "usage": chunks[-1].usage.to_dict()}


def fault(**options):
    try:
        streamed(**options) if options.pop("streams", False) else create(**options)
    except openai.APIError as error:
        return {
            "type": type(error).__name__,
            "status": getattr(error, "status_code", None),
            "code": error.code,
            "param": error.param,
        }
    return None


session = {"X-Session-Id": str(uuid.uuid4())}
history = [*user("hello"), {"role": "assistant", "content": "good day"}, *user("and now?")]
talk = client.with_options(default_headers=session)
asked = talk.chat.completions.create(model="PULSE", messages=user("pay"))
paid = talk.chat.completions.create(model="PULSE", messages=user("yes"))
print(
    json.dumps(
        {
            "models": [model.id for model in client.models.list()],
            "model": client.models.retrieve("atlas").id,
            "whole": create().choices[0].message.content,
            "streamed": streamed(messages=history),
            "question": asked.choices[0].message.content,
            "answer": paid.choices[0].message.content,
            "same_run": asked.id == paid.id,
            "faults": [
                fault(model="gpt-4o"),
                fault(n=2),
                fault(model="CIPHER"),
                fault(model="CIPHER", streams=True),
                fault(extra_headers={"Authorization": "Bearer svc_" + "0" * 64}),
            ],
        }
    )
)
