/**
 * Follows a run, its tree or a dispatch: every durable event once and in order, pieces of texts as they come, and the end.
 * The log brings news quickly; whatever it does not bring is read from the rows, which are the truth.
 */

import type { Relational } from '#engines/relational/port.ts'
import { budgets } from '#lib/budgets.ts'
import type { RunEventRecord } from '#schemas/types.ts'
import type { Run, StoredEvent } from '../state/types.ts'
import type { Feed } from './feed.ts'
import type { Look, Looks, Subject } from './subjects.ts'

/** News that wait for a reader that is slow. Beyond that it reads the rows, and misses pieces. */
const waitingMax = 256
const waitingBytesMax = budgets.runs.followedBytes
/** Events may have half a megabyte each. */
const pageMax = 16

export interface FollowParts {
  relational: Relational
  feed: Feed
  looks: Looks
}

/** An event of a run, as JSON. `seq` is null for a piece of a text, which nobody keeps. */
interface FollowedEvent {
  seq: number | null
  runId: string
  json: string
  /** For a piece, the number of its run's last durable event before it; null where the beginning of its text may be missing. */
  behind?: number | null
}

/** A run waits for an answer. Read it by `readAsking`. */
interface Asking {
  readAsking(): Promise<Run>
}

interface FollowOptions {
  after: number
  /** Ends where a run waits for an answer; otherwise that is given out, and it goes on. */
  untilAsked?: boolean
  /** It did not exist before `openFollow`, so that the rows need not be read at first. */
  fresh?: boolean
  signal: AbortSignal
}

export interface Follow<T> {
  /** Events behind `after` until the end; then says how it ended, or undefined when the signal aborted. Once only. */
  events(options: FollowOptions): AsyncGenerator<FollowedEvent | Asking, Ending<T> | undefined>
  close(): void
}

interface Ended<T> {
  asks?: false
  /** True where it is known that it completed, without reading it. */
  completed: boolean
  read(): Promise<T>
}

/** It has not ended: a run waits for an answer, which `read` gives. */
interface EndingAsked {
  asks: true
  read(): Promise<Run>
}

type Ending<T> = Ended<T> | EndingAsked

/** Hears of everything from now on. Close it, whether its events were read or not. */
export function openFollow<T>({ feed, looks }: FollowParts, subject: Subject<T>): Follow<T> {
  const news = new News(subject)
  const leave = feed.subscribe(subject.feed, (record, local) => news.add(record, local))
  const unwatch = looks.watch(subject.look, (look) => news.looked(look))
  return {
    events: (options) => follow(subject, news, options),
    close() {
      leave()
      unwatch()
    },
  }
}

async function* follow<T>(
  subject: Subject<T>,
  news: News<T>,
  { after, fresh = false, untilAsked = false, signal }: FollowOptions,
): AsyncGenerator<FollowedEvent | Asking, Ending<T> | undefined> {
  news.last = after
  news.behind = !fresh
  signal.addEventListener('abort', () => news.wake(), { once: true })
  while (!signal.aborted) {
    if (news.behind) {
      news.behind = false
      yield* eventsOfRows(subject, news, signal)
      const end = signal.aborted ? undefined : await endOf(subject, news)
      if (end?.asks && !untilAsked) yield { readAsking: end.read }
      else if (end) return end
      continue
    }
    const record = news.next()
    if (record === undefined) {
      if (!signal.aborted) await news.arrival()
      continue
    }
    const event = news.take(record)
    if (event) yield event
    if (!subject.endsWith(record) || news.behind) continue
    const { last_seq: lastSeq } = record
    if (lastSeq !== null && lastSeq === news.last && news.status === 'completed') {
      return endingOf(subject, true)
    }
    const { value, lastEventId } = await subject.readEnded()
    if (lastEventId <= news.last) return { completed: false, read: async () => value }
    news.behind = true
  }
  return undefined
}

async function* eventsOfRows<T>(
  subject: Subject<T>,
  news: News<T>,
  signal: AbortSignal,
): AsyncGenerator<FollowedEvent> {
  for (;;) {
    const page: StoredEvent[] = await subject.eventsAfter(news.last, pageMax)
    for (const { seq, runId, event } of page) {
      if (signal.aborted) return
      news.last = seq
      if (subject.shows(runId)) yield { seq, runId, json: JSON.stringify(event) }
    }
    if (page.length < pageMax) return
  }
}

/** The run or dispatch, once it has ended, or newly asks, and all its events were given out. */
async function endOf<T>(subject: Subject<T>, news: News<T>): Promise<Ending<T> | undefined> {
  const look = await subject.lookNow()
  if (look.lastEventId > news.last) news.behind = true
  if (news.behind) return undefined
  if (look.ended) return endingOf(subject, false)
  const asked = news.ask(look.asking)
  return asked && { asks: true, read: () => subject.readAsking(asked.runId) }
}

function endingOf<T>(subject: Subject<T>, completed: boolean): Ended<T> {
  return { completed, read: async () => (await subject.readEnded()).value }
}

/** Events that were not given out yet. */
class News<T> {
  /** The number of the last durable event that was given out, or passed over. */
  last = 0
  /** Events are in the rows that did not come here. */
  behind = false
  /** Status of the run or dispatch that is followed, by its records so far. */
  status: string | null = null
  /** Open questions that were given out. */
  #questions = new Set<string>()
  #hasAsked = false
  readonly #subject: Subject<T>
  #waiting: RunEventRecord[] = []
  #bytes = 0
  #arrived: PromiseWithResolvers<void> | undefined
  /** The attempt of each run whose records come from this process before they come with the log. */
  readonly #local = new Map<string, number>()
  /** Current attempt of each run: pieces of earlier attempts are void. */
  readonly #attempts = new Map<string, number>()
  /** Number of each run's last durable event that came as a record; 0 at its beginning. */
  readonly #heardTo = new Map<string, number>()

  constructor(subject: Subject<T>) {
    this.#subject = subject
  }

  add(record: RunEventRecord, local: boolean): void {
    const { run_id: runId, attempt, seq, event } = record
    if (local) this.#local.set(runId, attempt)
    // An event without a number cannot be recognized by it.
    else if (seq === null && event !== null && this.#local.get(runId) === attempt) return
    const bytes = event?.length ?? 0
    if (this.#waiting.length >= waitingMax || this.#bytes + bytes > waitingBytesMax) {
      this.#waiting = []
      this.#bytes = 0
      this.behind = true
    } else {
      this.#waiting.push(record)
      this.#bytes += bytes
    }
    this.wake()
  }

  wake(): void {
    this.#arrived?.resolve()
  }

  looked({ ended, lastEventId, asking }: Look): void {
    // Arrived events go out first: rows have no pieces of texts. The next look is a second away.
    const isAsked = asking.some(({ question }) => !this.#questions.has(question))
    if (this.#waiting.length > 0 || (!ended && !isAsked && lastEventId <= this.last)) return
    this.behind = true
    this.wake()
  }

  /** The first of these that was not given out; the others are for the next time. */
  ask(asking: Look['asking']): Look['asking'][number] | undefined {
    const fresh = asking.filter(({ question }) => !this.#questions.has(question))
    this.#questions = new Set(asking.map(({ question }) => question))
    for (const { question } of fresh.slice(1)) this.#questions.delete(question)
    if (fresh.length > 1) this.behind = true
    return fresh[0]
  }

  next(): RunEventRecord | undefined {
    const record = this.#waiting.shift()
    this.#bytes -= record?.event?.length ?? 0
    return record
  }

  /** The event of a record, unless it was given out before, is void, or others are missing in front of it. */
  take(record: RunEventRecord): FollowedEvent | undefined {
    const { run_id: runId, event: json, attempt } = record
    this.status = this.#subject.statusIn(record) ?? this.status
    if (json === null) {
      // Behind the answer, where it goes on after a question.
      if (record.status === 'running') this.#heardTo.set(runId, record.last_seq ?? 0)
      this.#hasAsked ||= record.status === 'input_required'
      // The rows say whether anything else of the tree goes on.
      if (this.#hasAsked && record.status !== null && record.status !== 'running') this.behind = true
      return undefined
    }
    const seq = this.#subject.seqOf(record)
    if (seq === null) {
      const newest = Math.max(this.#attempts.get(runId) ?? 0, attempt)
      this.#attempts.set(runId, newest)
      const behind = this.#heardTo.get(runId) ?? null
      return attempt === newest && this.#subject.shows(runId) ? { seq, runId, json, behind } : undefined
    }
    this.#heardTo.set(runId, seq)
    if (seq <= this.last) return undefined
    if (seq > this.last + 1) {
      this.behind = true
      return undefined
    }
    this.last = seq
    return this.#subject.shows(runId) ? { seq, runId, json } : undefined
  }

  /** Resolves when there is something to do, or it is woken. */
  async arrival(): Promise<void> {
    if (this.#waiting.length > 0 || this.behind) return
    this.#arrived = Promise.withResolvers()
    await this.#arrived.promise
    this.#arrived = undefined
  }
}
