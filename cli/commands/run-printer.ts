/** Writes what agents say to the terminal as it comes: one message after the other, pieces of it at once. */

import type { FollowedItem } from '#operations/runs-follow.ts'
import type { RunEvent } from '#services/runs/state/types.ts'

export interface RunPrinter {
  print(item: FollowedItem): void
  /** Ends a message that is not complete. */
  end(): void
}

type Complete = Exclude<FollowedItem, { kind: 'partial' }>

/** What a terminal would take for orders. */
const controls = /\p{Cc}/gu

/** While one message comes in pieces, the others wait for its end. */
export function createRunPrinter(write: (text: string) => void): RunPrinter {
  /** Of each run whose message is not complete. */
  const pieces = new Map<string, { author: string; text: string }>()
  /** The run whose message is being shown. */
  let live: string | undefined
  const waiting: Complete[] = []

  function printPiece({ author, invocationId, ...event }: RunEvent): void {
    const text = textOf(event)
    if (text === '') return
    const said = pieces.get(invocationId)?.text ?? ''
    pieces.set(invocationId, { author, text: said + text })
    if (live === undefined) show(invocationId)
    else if (live === invocationId) write(shown(text))
  }
  function show(runId: string): void {
    const { author, text } = pieces.get(runId)!
    live = runId
    write(`${author}: ${shown(text)}`)
  }
  function printWhole(event: RunEvent): void {
    const { author, invocationId } = event
    const text = textOf(event)
    const said = live === invocationId ? pieces.get(invocationId)!.text : undefined
    pieces.delete(invocationId)
    live = undefined
    if (said !== undefined && text.startsWith(said)) write(`${shown(text.slice(said.length))}\n`)
    else {
      // The pieces had a gap, or were those of another message: all of it, once more.
      if (said !== undefined) write('\n')
      if (text !== '') write(`${author}: ${shown(text)}\n`)
    }
    for (const name of callsOf(event)) write(`${author} calls ${shown(name)}\n`)
    if (event.errorCode) write(`${author} failed: ${shown(event.errorMessage ?? event.errorCode)}\n`)
  }
  function printComplete(item: Complete): void {
    if (item.kind === 'event') printWhole(item.event)
    else write(`[${item.agent} ${item.status}${item.error === null ? '' : `: ${shown(item.error)}`}]\n`)
  }
  function print(item: FollowedItem): void {
    if (item.kind === 'partial') {
      printPiece(item.event)
      return
    }
    if (live !== undefined && (item.kind === 'status' || item.event.invocationId !== live)) {
      waiting.push(item)
      return
    }
    printComplete(item)
    for (const one of waiting.splice(0)) printComplete(one)
    const [next] = pieces.keys()
    if (next !== undefined) show(next)
  }
  return {
    print,
    end() {
      if (live !== undefined) write('\n')
      live = undefined
      for (const item of waiting.splice(0)) printComplete(item)
    },
  }
}

function textOf({ content }: Pick<RunEvent, 'content'>): string {
  return (content?.parts ?? []).flatMap(({ text, thought }) => (text && !thought ? text : [])).join('')
}

function callsOf({ content }: RunEvent): string[] {
  return (content?.parts ?? []).flatMap(({ functionCall }) => {
    const { name } = (functionCall ?? {}) as { name?: unknown }
    return typeof name === 'string' ? name : []
  })
}

function shown(text: string): string {
  return text.replace(controls, (control) => (control === '\n' || control === '\t' ? control : ''))
}
