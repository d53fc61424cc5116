/** Writes what agents say to the terminal as it comes: one message after the other, pieces of it at once. */

import type { FollowedItem } from '#operations/runs-follow.ts'
import { isFault, type RunEvent } from '#services/runs/state/types.ts'
import { indented, line } from '../output.ts'

interface RunPrinter {
  print(item: FollowedItem): void
  /** Ends a message that is not complete. */
  end(): void
}

type Complete = Exclude<FollowedItem, { kind: 'partial' }>

/** While one message comes in pieces, the others wait for its end. */
export function createRunPrinter(write: (text: string) => void): RunPrinter {
  /** Pieces of the incomplete message of each run. */
  const pieces = new Map<string, { author: string; text: string }>()
  /** The run whose message is being shown. */
  let live: string | undefined
  const waiting: Complete[] = []

  function printPiece({ author, invocationId, ...event }: RunEvent): void {
    const text = textOf(event)
    if (text === '') return
    const before = pieces.get(invocationId)?.text ?? ''
    pieces.set(invocationId, { author, text: before + text })
    if (live === undefined) show(invocationId)
    else if (live === invocationId) write(indented(text))
  }
  function show(runId: string): void {
    const { author, text } = pieces.get(runId)!
    live = runId
    write(said(author, text))
  }
  function printWhole(event: RunEvent): void {
    const { author, invocationId } = event
    const text = textOf(event)
    const before = live === invocationId ? pieces.get(invocationId)!.text : undefined
    pieces.delete(invocationId)
    live = undefined
    if (before !== undefined && text.startsWith(before)) write(`${indented(text.slice(before.length))}\n`)
    else {
      // The pieces had a gap, or were those of another message: all of it, once more.
      if (before !== undefined) write('\n')
      if (text !== '') write(`${said(author, text)}\n`)
    }
    for (const name of callsOf(event)) write(line`${author} calls ${name}\n`)
    if (isFault(event, true)) write(line`${author} failed: ${event.errorMessage ?? event.errorCode!}\n`)
  }
  function printComplete(item: Complete): void {
    if (item.kind === 'event') printWhole(item.event)
    else write(line`[${item.agent} ${item.status}${item.error === null ? '' : `: ${item.error}`}]\n`)
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
    // How it asks is said in words, once it waits.
    return typeof name === 'string' && !name.startsWith('adk_request_') ? name : []
  })
}

/** Further lines of it are indented. */
function said(author: string, text: string): string {
  return `${line`${author}`}: ${indented(text)}`
}
