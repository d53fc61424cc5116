/** Takes the events of one run as its node sends them: stores the durable ones, publishes all, lets named agents join. */

import type { SqlTransaction } from '#engines/relational/port.ts'
import { containsSecret, redact } from '#services/access/secrets/redact.ts'
import { isRawJson } from '#stidx/exact-json.ts'
import { eventRefused, markShown, type StoredPosition, storeEvent } from '../state/events.ts'
import { leftOpen } from '../state/questions.ts'
import { isFault, type Question, type RunError, type RunEvent, spokenText } from '../state/types.ts'
import { AskedCalls } from './asked-calls.ts'
import {
  type Joined,
  joinMessage,
  joinNamed,
  type NamingText,
  namingEvent,
  namingMessage,
} from './mentions.ts'
import { persist, type RunControl, type RunHost, RunStopped } from './parts.ts'

const summaryBytesMax = 2_048
const errorLengthMax = 500
/** Pieces of texts are not kept, so a run may show more of them. */
const partialsMax = 100_000
const partialBytesMax = 64 * 1024 * 1024

/** The run has shown more than it may. */
export class TooManyEvents extends Error {}

export class RunEvents {
  readonly #host: RunHost
  readonly #control: RunControl
  #stored: number
  readonly #asked: AskedCalls
  #partials = 0
  #partialBytes = 0
  #shown = false
  /** The text of the last final event, without secrets. */
  summary: string | null = null
  /** What the agent reported as its fault, unless it went on after it. */
  error: RunError | null = null

  constructor(host: RunHost, control: RunControl) {
    this.#host = host
    this.#control = control
    this.#stored = control.run.events
    this.#asked = new AskedCalls(leftOpen(control.run))
  }

  /** What the agent asks; null where it does not. */
  get question(): Question | null {
    return this.#asked.question(this.summary ?? '')
  }

  /** The agents that the user's message names start together with the one that it is for. */
  async takeMessage(): Promise<void> {
    const { run } = this.#control
    const nodes = this.#host.nodes()
    const named = namingMessage(run, nodes)
    // In an earlier attempt they were started already.
    if (!named || run.joined.length + run.skipped.length > 0) return
    const joined = await persist(this.#control, () =>
      joinMessage(this.#host.relational, run, named, nodes, 'running'),
    )
    if (joined) this.#haveJoined(joined)
  }

  /** Throws RunStopped when the run is not this dispatcher's any more, TooManyEvents at its bounds. */
  async take(given: RunEvent): Promise<void> {
    const asks = this.#asked.isNew(given)
    // A piece that asks is kept.
    const whole = asks ? { ...given, partial: undefined } : given
    const { event, text } = withoutSecrets(whole as RunEvent, this.#host.nodes().secrets)
    if (event.partial === true) return this.#takePartial(text)
    if (asks) this.#asked.add(event)
    const { run } = this.#control
    const named = namingEvent(run, event, this.#host.nodes())
    const position = await persist(this.#control, () => this.#store(text, named))
    this.#stored++
    this.#shown = true
    this.#note(event)
    if (position.joined) this.#haveJoined(position.joined)
    this.#host.news.stored(run, text, position)
  }

  async #takePartial(text: string): Promise<void> {
    const { run } = this.#control
    this.#partials++
    this.#partialBytes += text.length
    if (this.#partials > partialsMax || this.#partialBytes > partialBytesMax) throw new TooManyEvents()
    if (!this.#shown) {
      const held = await persist(this.#control, () => markShown(this.#host.relational, run))
      if (!held) throw new RunStopped('lease_lost')
      this.#shown = true
    }
    if (this.#control.leaseLeftMs > 0) this.#host.news.partial(run, text)
  }

  async #store(event: string, named: NamingText | null): Promise<StoredPosition & { joined?: Joined }> {
    const { relational } = this.#host
    const { run } = this.#control
    const given = { event, before: this.#stored }
    const stored = named
      ? await relational.transaction((tx) => this.#storeNaming(tx, given, named))
      : await this.#host.storeEvent({ runId: run.runId, epoch: run.epoch, ...given })
    if (stored) return stored
    const refused = await eventRefused(relational, run, given)
    if (refused === 'not_held') throw new RunStopped('lease_lost')
    if (refused === 'too_many') throw new TooManyEvents()
    return refused
  }

  /** The event and those who join because of it commit together. */
  async #storeNaming(tx: SqlTransaction, given: { event: string; before: number }, named: NamingText) {
    const { run } = this.#control
    const stored = await storeEvent(tx, run, given)
    if (!stored || stored.canceled) return stored
    return { ...stored, joined: await joinNamed(tx, run, named, this.#host.nodes()) }
  }

  #haveJoined({ joined, skipped }: Joined): void {
    const { run } = this.#control
    run.joined.push(...joined.map(({ agent, runId }) => ({ agent, runId })))
    run.skipped.push(...skipped)
    for (const { slug } of joined) this.#host.wake(slug)
  }

  #note(event: RunEvent): void {
    const text = event.content ? spokenText(event.content) : ''
    if (isFault(event, text !== '' || this.summary !== null)) {
      this.error = agentError(event.errorMessage ?? event.errorCode!, this.#host.nodes().secrets)
    } else if (text !== '') {
      this.error = null
      this.summary = cutBytes(masked(text, this.#host.nodes().secrets), summaryBytesMax)
    }
  }
}

/** A node that shows the headers of its own request does not give the platform's credential to its caller. */
function withoutSecrets(event: RunEvent, secrets: readonly string[]): { event: RunEvent; text: string } {
  const text = JSON.stringify(event)
  if (!containsSecret(text, secrets)) return { event, text }
  const masked = (value: unknown): unknown => {
    if (typeof value === 'string') return redact(value, secrets)
    if (typeof value !== 'object' || value === null || isRawJson(value)) return value
    if (Array.isArray(value)) return value.map(masked)
    return Object.fromEntries(
      Object.entries(value).map(([name, item]) => [redact(name, secrets), masked(item)]),
    )
  }
  const clean = masked(event) as RunEvent
  return { event: clean, text: JSON.stringify(clean) }
}

export function agentError(text: string, secrets: readonly string[]): RunError {
  const message = masked(text, secrets).slice(0, errorLengthMax).toWellFormed()
  return { code: 'agent_error', message, retryable: false }
}

/** Texts of columns hold neither NUL nor half a character. */
function masked(text: string, secrets: readonly string[]): string {
  return redact(text, secrets).replaceAll('\0', '\ufffd').toWellFormed()
}

function cutBytes(text: string, max: number): string {
  const bytes = Buffer.from(text)
  if (bytes.length <= max) return text
  let end = max - 3
  // Not within a character.
  while ((bytes[end]! & 0xc0) === 0x80) end--
  return `${bytes.subarray(0, end)}…`
}
