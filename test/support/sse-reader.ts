/** Reads a stream of a run or a dispatch, frame by frame. */

export interface SseFrame {
  id: string | undefined
  // biome-ignore lint/suspicious/noExplicitAny: of many shapes, each checked where it is read.
  data: any
}

export interface SseRequest {
  key: string
  method?: string
  body?: unknown
  lastEventId?: string
  headers?: Record<string, string>
}

export interface SseReader {
  status: number
  headers: Headers
  /** As text, where it is no stream. */
  text: string
  frames: SseFrame[]
  comments: string[]
  retry: string | undefined
  /** Resolves when the answer is over: true when the server ended it in order. */
  over: Promise<boolean>
  /** Cuts the connection. */
  cut(): void
  /** Durable ones, without the last frame. */
  ids(): number[]
  /** `customMetadata` of the last frame, once it has come. */
  // biome-ignore lint/suspicious/noExplicitAny: run or dispatch.
  end(): any
}

export async function readSse(
  url: string,
  { key, method, body, lastEventId, headers }: SseRequest,
): Promise<SseReader> {
  const cut = new AbortController()
  const answer = await fetch(url, {
    method: method ?? (body === undefined ? 'GET' : 'POST'),
    signal: cut.signal,
    headers: {
      accept: 'text/event-stream',
      authorization: `Bearer ${key}`,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...(lastEventId === undefined ? {} : { 'last-event-id': lastEventId }),
      ...headers,
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  const isStream = answer.headers.get('content-type')?.startsWith('text/event-stream') === true
  const reader: SseReader = {
    status: answer.status,
    headers: answer.headers,
    text: isStream ? '' : await answer.text(),
    frames: [],
    comments: [],
    retry: undefined,
    over: Promise.resolve(true),
    cut: () => cut.abort(),
    ids: () =>
      reader.frames
        .filter(({ id, data }) => id !== undefined && data.author !== 'gateway')
        .map(({ id }) => Number(id)),
    end: () => reader.frames.findLast(({ data }) => data.author === 'gateway')?.data.customMetadata,
  }
  if (isStream) reader.over = readFrames(answer, reader)
  return reader
}

async function readFrames(answer: Response, reader: SseReader): Promise<boolean> {
  let rest = ''
  const decoder = new TextDecoder()
  try {
    for await (const chunk of answer.body!) {
      const blocks = (rest + decoder.decode(chunk, { stream: true })).split('\n\n')
      rest = blocks.pop()!
      for (const block of blocks) takeBlock(block, reader)
    }
    return true
  } catch {
    return false
  }
}

function takeBlock(block: string, reader: SseReader): void {
  const fields = new Map<string, string>()
  for (const line of block.split('\n')) {
    if (line.startsWith(':')) reader.comments.push(line.slice(1).trim())
    else fields.set(line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1).trimStart())
  }
  reader.retry = fields.get('retry') ?? reader.retry
  const data = fields.get('data')
  if (data !== undefined) reader.frames.push({ id: fields.get('id'), data: JSON.parse(data) })
}
