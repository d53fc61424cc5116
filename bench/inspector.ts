/** Asks the threads of a process that runs with `--inspect=127.0.0.1:0`. */

interface Message {
  id?: number
  method?: string
  params?: Record<string, unknown>
  result?: unknown
  error?: { message: string }
}

export type Ask = <T>(method: string, params?: object) => Promise<T>

export interface Inspected {
  /** `main`, and those that the process has now. */
  threads: { name: string; ask: Ask }[]
  /** The process goes on. */
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

export async function openInspector(url: string): Promise<Inspected> {
  const socket = new WebSocket(url)
  await new Promise((resolve, reject) => {
    socket.onopen = resolve
    socket.onerror = () => reject(new Error(`the inspector at ${url} does not answer`))
  })
  const main = createCalls((text) => socket.send(text))
  const threads: Inspected['threads'] = [{ name: 'main', ask: main.ask }]
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
      threads.push({ name: nameOf(workerInfo), ask: calls.ask })
    } else if (message.method === 'NodeWorker.receivedMessageFromWorker' && sessionId) {
      ofThread.get(sessionId)?.(JSON.parse(inner ?? '{}') as Message)
    } else main.heard(message)
  }
  await main.ask('NodeWorker.enable', { waitForDebuggerOnStart: false })
  await new Promise((resolve) => setTimeout(resolve, attachMs))
  return { threads, close: () => socket.close() }
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
