/** A language model that composes answers, at any endpoint with the API of OpenAI chat completions. */

import { type Static, Type } from 'typebox'

export const modelSettings = Type.Object({
  OPENAI_BASE_URL: Type.Optional(
    Type.String({
      description:
        'endpoint with the API of OpenAI chat completions, for example `https://api.openai.com/v1`: the reference nodes let its model compose their answers',
    }),
  ),
  OPENAI_API_KEY: Type.Optional(Type.String({ description: 'key of that endpoint' })),
  OPENAI_MODEL: Type.String({ default: 'gpt-4o-mini', description: 'model of that endpoint' }),
})

export interface ChatMessage {
  role: 'system' | 'user'
  content: string
}

/** Throws when the endpoint does not answer in time, or with anything but a text. */
export type Compose = (messages: readonly ChatMessage[], signal: AbortSignal) => Promise<string>

const timeoutMs = 60_000
const answerTokensMax = 800
const answerBytesMax = 1024 * 1024

/** Undefined where no endpoint is set. */
export function modelOf(settings: Static<typeof modelSettings>): Compose | undefined {
  const { OPENAI_BASE_URL: base, OPENAI_API_KEY: key, OPENAI_MODEL: model } = settings
  if (base === undefined) return undefined
  const url = `${base.replace(/\/+$/, '')}/chat/completions`
  /** OpenAI's models since o1 refuse `max_tokens`, and other servers do not know the name that replaced it. */
  let limitName = 'max_completion_tokens'

  async function ask(limit: string, messages: readonly ChatMessage[], signal: AbortSignal) {
    const response = await fetch(url, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
      },
      body: JSON.stringify({ model, messages, [limit]: answerTokensMax }),
      signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
    })
    const text = await bodyOf(response)
    const isLimitRefused = (response.status === 400 || response.status === 422) && text.includes(limit)
    return { ok: response.ok, status: response.status, text, isLimitRefused }
  }

  return async function compose(messages, signal) {
    const limit = limitName
    let answer = await ask(limit, messages, signal)
    if (answer.isLimitRefused) {
      limitName = limit === 'max_tokens' ? 'max_completion_tokens' : 'max_tokens'
      answer = await ask(limitName, messages, signal)
    }
    // Its words may quote the request: the status alone is passed on.
    if (!answer.ok) throw new Error(`the model's endpoint answered ${answer.status}`)
    return textOf(answer.text)
  }
}

export interface ComposeParts {
  compose: Compose | undefined
  /** What an answer goes without. */
  onMissing(what: string, error: unknown): void
}

/** What the model says, as quoted lines; null without a model, and where it does not answer. Throws when the signal aborts. */
export async function composedBy(
  { compose, onMissing }: ComposeParts,
  { system, user }: { system: string; user: string },
  signal: AbortSignal,
): Promise<string | null> {
  if (!compose) return null
  try {
    const text = await compose(
      [
        { role: 'system', content: system },
        { role: 'user', content: user },
      ],
      signal,
    )
    return quotedLines(text)
  } catch (error) {
    signal.throwIfAborted()
    onMissing('model', error)
    return null
  }
}

async function bodyOf({ body }: Response): Promise<string> {
  const chunks: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of body ?? []) {
    bytes += chunk.length
    if (bytes > answerBytesMax) throw new Error("the model's endpoint answered too much")
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}

function textOf(body: string): string {
  let content: unknown
  try {
    const { choices } = JSON.parse(body) as { choices?: { message?: { content?: unknown } }[] }
    content = choices?.[0]?.message?.content
  } catch {
    content = undefined
  }
  if (typeof content !== 'string' || content.trim() === '') throw new Error('the model said nothing')
  return content.trim()
}

/** Quoted, so that a name in it calls nobody. */
function quotedLines(text: string): string {
  return text
    .split(/\r\n|[\n\r\u2028\u2029]/)
    .map((line) => `> ${line}`)
    .join('\n')
}
