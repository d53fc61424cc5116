/**
 * What the agents of a run say, as one text of a chat: messages one after the other, each agent but the one at the beginning named
 * in front of its words. While one message comes in pieces, the others wait for its end.
 */

import type { RunEvent } from '../../state/types.ts'

/** Messages that wait for the end of another one; beyond that they are shown in its middle. */
const waitingLengthMax = 64 * 1024

export type Speech = ReturnType<typeof createSpeech>

/** `agent`: the codename of the one that is asked. */
export function createSpeech(agent: string, write: (text: string) => void) {
  let speaker = agent
  let hasSpoken = false
  /** The message that is being shown in pieces. */
  let live: { runId: string; shown: string } | undefined
  /** Runs that had a piece which was not shown: their message is shown when it is whole. */
  const missed = new Set<string>()
  const waiting: { runId: string; author: string; text: string }[] = []
  let waitingLength = 0

  function say(author: string, text: string): void {
    const name = author === speaker ? '' : `**${author}:** `
    write(`${hasSpoken ? '\n\n' : ''}${name}${text}`)
    speaker = author
    hasSpoken = true
  }

  function sayWhole(runId: string, author: string, text: string): void {
    missed.delete(runId)
    const before = live?.runId === runId ? live.shown : undefined
    if (before !== undefined) live = undefined
    // Otherwise the pieces had a gap, or others spoke in between: all of it, once more.
    if (before !== undefined && text.startsWith(before) && speaker === author) {
      if (text.length > before.length) write(text.slice(before.length))
    } else if (text !== '') say(author, text)
  }

  function sayWaiting(): void {
    for (const { runId, author, text } of waiting.splice(0)) sayWhole(runId, author, text)
    waitingLength = 0
  }

  return {
    /** A piece of a message that comes as a whole later. */
    piece({ author, invocationId: runId, content }: RunEvent): void {
      const text = textOf(content)
      if (text === '' || missed.has(runId)) return
      if (live === undefined) {
        live = { runId, shown: text }
        say(author, text)
      } else if (live.runId === runId) {
        live.shown += text
        if (speaker === author) write(text)
        else say(author, text)
      } else missed.add(runId)
    },
    /** A piece of this run could not be shown. */
    miss(runId: string): void {
      missed.add(runId)
    },
    whole(event: RunEvent): void {
      const { author, invocationId: runId } = event
      if (author === 'user') return
      const text = textOf(event.content)
      if (live !== undefined && live.runId !== runId && waitingLength + text.length <= waitingLengthMax) {
        waiting.push({ runId, author, text })
        waitingLength += text.length
        return
      }
      sayWhole(runId, author, text)
      if (live === undefined) sayWaiting()
    },
    /** Words of the platform in the name of an agent, behind all that was said. */
    end(last: readonly { author: string; text: string }[]): void {
      live = undefined
      sayWaiting()
      for (const { author, text } of last) say(author, text)
    },
  }
}

/** Without thoughts, calls of tools and their results. */
function textOf(content: RunEvent['content']): string {
  return (content?.parts ?? []).flatMap(({ text, thought }) => (text && !thought ? text : [])).join('')
}

interface Counts {
  prompt_tokens: number
  completion_tokens: number
  total_tokens: number
}

/** The tokens that the nodes of the agents count; 0 where they count none. */
export function createUsage() {
  const counts: Counts = { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }
  const numberIn = (value: unknown) => (Number.isSafeInteger(value) && Number(value) > 0 ? Number(value) : 0)
  return {
    counts,
    add({ usageMetadata }: RunEvent): void {
      const { promptTokenCount, candidatesTokenCount, thoughtsTokenCount } = (usageMetadata ?? {}) as Record<
        string,
        unknown
      >
      counts.prompt_tokens += numberIn(promptTokenCount)
      counts.completion_tokens += numberIn(candidatesTokenCount) + numberIn(thoughtsTokenCount)
      counts.total_tokens = counts.prompt_tokens + counts.completion_tokens
    },
  }
}
