/** Bare chat completions at the run gateway, and the chunks of their streams. */

import { type Answer, call } from './gateway-call.ts'
import type { RunsCall, RunsPlatform } from './runs-platform.ts'

// biome-ignore lint/suspicious/noExplicitAny: of many shapes, each checked where it is read.
type Json = any

export interface ChatStream {
  status: number
  headers: Headers
  chunks: Json[]
  /** Those in `data: {"error": …}`. */
  errors: Json[]
  /** Lines with data, in order. */
  lines: string[]
  /** All words so far. */
  content(): string
  /** Resolves at the end: true when the server ended it in order. */
  over: Promise<boolean>
  cut(): void
}

type ChatAnswer = Omit<Answer, 'json'> & { json: Json }

export function chatsOf({ runUrl, memberKey }: Pick<RunsPlatform, 'runUrl' | 'memberKey'>) {
  const path = '/openai/chat/completions'
  return {
    async send(body: object, { key, headers = {} }: RunsCall = {}): Promise<ChatAnswer> {
      return call(runUrl, path, { method: 'POST', body, key: key ?? (await memberKey()), headers })
    },
    async stream(body: object, { key, headers = {} }: RunsCall = {}): Promise<ChatStream> {
      const cut = new AbortController()
      const answer = await fetch(`${runUrl}${path}`, {
        method: 'POST',
        signal: cut.signal,
        headers: {
          'content-type': 'application/json',
          authorization: `Bearer ${key ?? (await memberKey())}`,
          ...headers,
        },
        body: JSON.stringify({ ...body, stream: true }),
      })
      return readChat(answer, () => cut.abort())
    },
  }
}

export function readChat(answer: Response, cut = () => {}): ChatStream {
  const stream: ChatStream = {
    status: answer.status,
    headers: answer.headers,
    chunks: [],
    errors: [],
    lines: [],
    content: () => stream.chunks.map(({ choices }) => choices[0]?.delta.content ?? '').join(''),
    over: Promise.resolve(true),
    cut,
  }
  stream.over = readLines(answer, stream)
  return stream
}

async function readLines(answer: Response, stream: ChatStream): Promise<boolean> {
  let rest = ''
  const decoder = new TextDecoder()
  try {
    for await (const piece of answer.body!) {
      const lines = (rest + decoder.decode(piece, { stream: true })).split('\n')
      rest = lines.pop()!
      for (const line of lines) if (line.startsWith('data: ')) take(line, stream)
    }
    return true
  } catch {
    return false
  }
}

function take(line: string, { chunks, errors, lines }: ChatStream): void {
  lines.push(line)
  if (line === 'data: [DONE]') return
  const data = JSON.parse(line.slice('data: '.length)) as Json
  if (data.error) errors.push(data.error)
  else chunks.push(data)
}
