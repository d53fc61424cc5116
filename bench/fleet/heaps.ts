/** Sizes of a process's JavaScript heaps after a collection, asked over Node's inspector: one for each thread. */

export interface Heap {
  /** `main`, or the name of a thread. */
  thread: string
  /** Bytes of live objects. Buffers outside of the heap are part of the memory of the process. */
  bytes: number
}

interface Message {
  id?: number
  method?: string
  params?: Record<string, unknown>
  result?: unknown
  error?: { message: string }
}

type Ask = <T>(method: string, params?: object) => Promise<T>

interface Inspected {
  ask: Ask
  /** By the id of their session. */
  threads: Map<string, { name: string; ask: Ask }>
  close(): void
}

const answerMs = 30_000
/** Threads report themselves behind the answer that turned it on. */
const attachMs = 500

/** The inspector's address of a process run with `--inspect=127.0.0.1:0`, which writes this line at its start. */
export function inspectorUrlOf(output: string): string {
  const url = /Debugger listening on (ws:\S+)/.exec(output)?.[1]
  if (url === undefined) throw new Error('the process does not serve the inspector')
  return url
}

/** Collects in every thread of the process and reads how much is left. */
export async function readHeaps(inspectorUrl: string): Promise<Heap[]> {
  const inspected = await openInspector(inspectorUrl)
  try {
    await inspected.ask('NodeWorker.enable', { waitForDebuggerOnStart: false })
    await new Promise((resolve) => setTimeout(resolve, attachMs))
    const heaps = [await readHeap('main', inspected.ask)]
    for (const { name, ask } of inspected.threads.values()) heaps.push(await readHeap(name, ask))
    return heaps
  } finally {
    inspected.close()
  }
}

async function readHeap(thread: string, ask: Ask): Promise<Heap> {
  await ask('HeapProfiler.enable')
  // Objects released by finalizers go with the second collection.
  for (let times = 0; times < 2; times++) await ask('HeapProfiler.collectGarbage')
  const { usedSize: bytes } = await ask<{ usedSize: number }>('Runtime.getHeapUsage')
  await ask('HeapProfiler.disable')
  return { thread, bytes }
}

async function openInspector(url: string): Promise<Inspected> {
  const socket = new WebSocket(url)
  await new Promise((resolve, reject) => {
    socket.onopen = resolve
    socket.onerror = () => reject(new Error(`the inspector at ${url} does not answer`))
  })
  const threads: Inspected['threads'] = new Map()
  const main = createCalls((text) => socket.send(text))
  const ofThread = new Map<string, (message: Message) => void>()
  socket.onmessage = ({ data }) => {
    const message = JSON.parse(String(data)) as Message
    const {
      sessionId,
      workerInfo,
      message: inner,
    } = (message.params ?? {}) as {
      sessionId?: string
      workerInfo?: { title: string; workerId: string }
      message?: string
    }
    if (message.method === 'NodeWorker.attachedToWorker' && sessionId && workerInfo) {
      const calls = createCalls((text) =>
        main.ask('NodeWorker.sendMessageToWorker', { sessionId, message: text }),
      )
      ofThread.set(sessionId, calls.heard)
      threads.set(sessionId, { name: nameOf(workerInfo), ask: calls.ask })
    } else if (message.method === 'NodeWorker.receivedMessageFromWorker' && sessionId) {
      ofThread.get(sessionId)?.(JSON.parse(inner ?? '{}') as Message)
    } else main.heard(message)
  }
  return { ask: main.ask, threads, close: () => socket.close() }
}

/** Node writes `[worker 3] name`. */
function nameOf({ title, workerId }: { title: string; workerId: string }): string {
  return /^\[worker \d+\] (.+)$/.exec(title)?.[1] ?? `thread ${workerId}`
}

function createCalls(send: (text: string) => unknown) {
  const waiting = new Map<number, (message: Message) => void>()
  let ids = 0
  const ask: Ask = <T>(method: string, params: object = {}) =>
    new Promise<T>((resolve, reject) => {
      const id = ++ids
      const late = setTimeout(() => {
        waiting.delete(id)
        reject(new Error(`${method} was not answered within ${answerMs} ms`))
      }, answerMs)
      waiting.set(id, ({ result, error }) => {
        clearTimeout(late)
        if (error) reject(new Error(`${method}: ${error.message}`))
        else resolve(result as T)
      })
      send(JSON.stringify({ id, method, params }))
    })
  const heard = (message: Message) => {
    if (message.id === undefined) return
    waiting.get(message.id)?.(message)
    waiting.delete(message.id)
  }
  return { ask, heard }
}
