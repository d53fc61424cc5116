/** Exchanges with the api_server of Google ADK 2.13 for Python, as they went over the wire: test/data/adk/exchanges. */

import { readdirSync, readFileSync } from 'node:fs'
import type { Script } from './scripted-node.ts'

const folder = new URL('../data/adk/exchanges/', import.meta.url)

export interface Exchange {
  path: string
  body: RecordedBody
  /** As it came. */
  answer: string
}

interface RecordedBody extends Record<string, unknown> {
  appName: string
  sessionId: string
  newMessage: { role: string; parts: Record<string, unknown>[] }
}

export const exchangeNames = readdirSync(folder).map((name) => name.replace(/\.http$/, ''))

/** In order; the first one makes the session. */
export function readExchanges(name: string): Exchange[] {
  const blocks = readFileSync(new URL(`${name}.http`, folder), 'utf8').split(/^### /m)
  const exchanges: Exchange[] = []
  for (let n = 1; n < blocks.length; n += 2) {
    const [request, answer] = [cut(blocks[n]!), cut(blocks[n + 1]!)]
    const path = request.head.replace('POST ', '')
    exchanges.push({ path, body: JSON.parse(request.rest), answer: `${answer.rest.trimEnd()}\n\n` })
  }
  return exchanges
}

function cut(block: string): { head: string; rest: string } {
  const end = block.indexOf('\n')
  return { head: block.slice(0, end), rest: block.slice(end + 1) }
}

/** The runs of an exchange. */
export const runsOf = (name: string) => readExchanges(name).filter(({ path }) => path === '/run_sse')

/** A node that answers byte for byte as the recorded one. */
export function playing(name: string): Script {
  const left = runsOf(name)
  return () => [{ raw: left.shift()?.answer ?? '' }]
}

interface RecordedEvent extends Record<string, unknown> {
  content?: { parts: { text?: string; functionCall?: { id: string; name: string; args: unknown } }[] }
  longRunningToolIds?: string[] | null
}

export function eventsIn(answer: string): RecordedEvent[] {
  const frames = answer.split('\n\n').filter((frame) => frame.startsWith('data: '))
  return frames.map((frame) => JSON.parse(frame.slice('data: '.length)))
}

/** Ids and times are each server's own: the same ones get the same number. */
export function withoutIds(text: string): string {
  const ids = new Map<string, string>()
  return text
    .replace(/(?:adk-|e-)?[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, (id) => {
      ids.set(id, ids.get(id) ?? `id-${ids.size}`)
      return ids.get(id)!
    })
    .replace(/"timestamp":[0-9.]+/g, '"timestamp":0')
}
