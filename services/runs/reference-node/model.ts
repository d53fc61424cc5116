/** A language model that composes answers, at any endpoint with the API of OpenAI chat completions. */

import { type Static, Type } from 'typebox'

export const modelSettings = Type.Object({
  OPENAI_BASE_URL: Type.Optional(
    Type.String({
      description:
        'endpoint with the API of OpenAI chat completions, for example `https://api.openai.com/v1`: its model answers, too, where the reference agents do',
    }),
  ),
  OPENAI_API_KEY: Type.Optional(Type.String({ description: 'key of that endpoint' })),
  OPENAI_MODEL: Type.String({ default: 'gpt-4o-mini', description: 'model of that endpoint' }),
})

export interface ChatMessage {
  role: 'system' | 'user'
  content: string
}

/** Throws a ModelFault when the endpoint does not answer in time, or with anything but a text. */
export type Compose = (
  messages: readonly ChatMessage[],
  signal: AbortSignal,
  timeoutMs?: number,
) => Promise<string>

/** Its message is for those who asked: plain words, and nothing that the endpoint said, which may quote the request. */
class ModelFault extends Error {}

const defaultTimeoutMs = 120_000
/** Models that think before they answer use thousands. */
const answerTokensMax = 8_192
const answerBytesMax = 1024 * 1024
/**
 * OpenAI's models since o1 refuse `max_tokens`, other servers do not know the name that replaced it, and small models refuse so
 * many: then there is no limit but their own.
 */
const limitNames = ['max_completion_tokens', 'max_tokens', null] as const

/** Undefined where no endpoint is set. */
export function modelOf(settings: Static<typeof modelSettings>): Compose | undefined {
  const { OPENAI_BASE_URL: base, OPENAI_API_KEY: key, OPENAI_MODEL: model } = settings
  if (base === undefined) return undefined
  const url = `${base.replace(/\/+$/, '')}/chat/completions`
  /** The place in `limitNames` of the first that was not refused. */
  let accepted = 0

  async function ask(limit: string | null, messages: readonly ChatMessage[], signal: AbortSignal) {
    const response = await fetch(url, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
      },
      body: JSON.stringify({ model, messages, ...(limit === null ? {} : { [limit]: answerTokensMax }) }),
      signal,
    })
    const text = await bodyOf(response)
    const isLimitRefused =
      limit !== null && (response.status === 400 || response.status === 422) && text.includes(limit)
    return { ok: response.ok, status: response.status, text, isLimitRefused }
  }

  return async function compose(messages, signal, timeoutMs = defaultTimeoutMs) {
    const timeout = AbortSignal.timeout(timeoutMs)
    const ended = AbortSignal.any([signal, timeout])
    try {
      let answer = await ask(limitNames[accepted]!, messages, ended)
      for (let next = accepted + 1; answer.isLimitRefused && next < limitNames.length; next++) {
        answer = await ask(limitNames[next]!, messages, ended)
        if (!answer.isLimitRefused) accepted = next
      }
      if (!answer.ok) throw new ModelFault(`its endpoint answered ${answer.status}`)
      return textOf(answer.text)
    } catch (error) {
      signal.throwIfAborted()
      if (error instanceof ModelFault) throw error
      const reason = timeout.aborted
        ? `it took longer than ${timeoutMs / 1_000} seconds`
        : 'its endpoint does not answer'
      throw new ModelFault(reason, { cause: error })
    }
  }
}

export interface ComposeParts {
  /** Undefined where no model is set. */
  compose: Compose | undefined
  /** What an answer goes without. */
  onMissing(what: string, error: unknown): void
}

/** What a model said, as quoted lines, or why it did not. */
export type Words = { words: string } | { fault: string }

/** Undefined without a model. Throws when the signal aborts. */
export async function composedBy(
  { compose, onMissing }: ComposeParts,
  { system, user }: { system: string; user: string },
  signal: AbortSignal,
  timeoutMs?: number,
): Promise<Words | undefined> {
  if (!compose) return undefined
  try {
    const text = await compose(
      [
        { role: 'system', content: system },
        { role: 'user', content: user },
      ],
      signal,
      timeoutMs,
    )
    return { words: quotedLines(text) }
  } catch (error) {
    signal.throwIfAborted()
    onMissing('model', error)
    return { fault: error instanceof ModelFault ? error.message : 'it failed' }
  }
}

async function bodyOf({ body }: Response): Promise<string> {
  const chunks: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of body ?? []) {
    bytes += chunk.length
    if (bytes > answerBytesMax) throw new ModelFault('its endpoint answered too much')
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}

function textOf(body: string): string {
  let choice: { message?: { content?: unknown }; finish_reason?: unknown } | undefined
  try {
    choice = (JSON.parse(body) as { choices?: (typeof choice)[] }).choices?.[0]
  } catch {
    throw new ModelFault('its endpoint answered no JSON')
  }
  const content = choice?.message?.content
  const text = typeof content === 'string' ? content.replace(thoughts, '').trim() : ''
  if (text !== '') return text
  const isCut = choice?.finish_reason === 'length'
  throw new ModelFault(isCut ? 'its tokens were used up before it came to an answer' : 'it said nothing')
}

/** Some servers leave them in front of the answer. Thoughts that were cut off have no end. */
const thoughts = /^\s*<think>[\s\S]*?(?:<\/think>|$)/

/** Quoted, so that a name in it calls nobody. */
function quotedLines(text: string): string {
  return text
    .split(/\r\n|[\n\r\u2028\u2029]/)
    .map((line) => `> ${line}`)
    .join('\n')
}
