/**
 * Runs writes in order and in small slices, between which searches run. A write resolves when it is durable and
 * indexed.
 */

import { AppError } from '#lib/errors.ts'
import type { PointsFile } from './points-file.ts'
import type { Change, Write, Written } from './points-write.ts'

/**
 * One slice is one transaction, and then some steps of the indexes, which take three times as long: a search waits for
 * one of these at most, less than a millisecond. More points a slice write faster and make searches wait longer.
 */
export const pointsPerSlice = 24
const pointsPerStep = 8
/** While searches come this often, writes take a fifth of the thread's time at most: they leave four times as long to the others. */
const searchesKeepComingMs = 50
const leftPerWork = 4
/** Operations that may wait; callers hold at most a few batches each. */
const operationsMax = 200_000

/** Where writes of one collection go. */
export interface WriteTarget {
  /** False once its generation is dropped. */
  exists(): boolean
  /** Inside the transaction. */
  write(writes: Write[]): Written
  /** After the commit. */
  committed(added: number): void
  /** After the commit: takes the changes into the indexes. */
  index(changes: Change[]): void
}

interface Job {
  target: Pick<WriteTarget, 'committed' | 'index'>
  /** At most so many points change. */
  points: number
  /** Inside the transaction. */
  write(): Written
  last: boolean
  resolve(): void
  reject(error: unknown): void
}

/** Runs in its turn, by itself. */
type Task = { run(): void }

export type WriteQueue = ReturnType<typeof createWriteQueue>

export function createWriteQueue(file: PointsFile) {
  const jobs: (Job | Task)[] = []
  const turns = createTurns()
  let waiting = 0
  let lastWrite = performance.now()
  let lastSearch = -Infinity
  let pumping = false
  let ended = false

  async function pump(): Promise<void> {
    if (pumping) return
    pumping = true
    turns.begin()
    while (jobs.length > 0) {
      await turns.next()
      // Only now: another may have been put first meanwhile.
      const next = jobs[0]!
      if ('run' in next) {
        jobs.shift()
        next.run()
        continue
      }
      const slice = takeSlice(jobs)
      await runSlice(file, slice, turns)
      for (const job of slice) waiting -= job.points
      lastWrite = performance.now()
      if (lastWrite - lastSearch < searchesKeepComingMs) await turns.rest()
    }
    // In the same tick as the look at the empty queue: an item added from now on starts a new pump.
    pumping = false
  }
  return {
    async add(target: WriteTarget, writes: Write[]): Promise<void> {
      if (writes.length === 0) return
      if (waiting + writes.length > operationsMax) {
        throw new AppError('overloaded', 'Too many points wait to be written; try again in a second.', {
          retryAfter: 1,
        })
      }
      waiting += writes.length
      await new Promise<void>((resolve, reject) => {
        for (let i = 0; i < writes.length; i += pointsPerSlice) {
          const part = writes.slice(i, i + pointsPerSlice)
          const last = i + pointsPerSlice >= writes.length
          const write = () => writeTo(target, part)
          jobs.push({ target, points: part.length, write, last, resolve, reject })
        }
        void pump()
      })
    },
    /**
     * Runs `write`, which changes up to `pointsPerSlice` points, in a slice of its own ahead of pending writes: reads wait for
     * it. Resolves when it is durable and indexed.
     */
    async addFirst(target: Job['target'], write: () => Written): Promise<void> {
      if (ended) throw new AppError('shutting_down', 'The vector engine is closed.')
      waiting += pointsPerSlice
      await new Promise<void>((resolve, reject) => {
        jobs.unshift({ target, points: pointsPerSlice, write, last: true, resolve, reject })
        void pump()
      })
    },
    /** From now on `addFirst` changes nothing any more: to be called by the last work of the queue. */
    end(): void {
      ended = true
    },
    /** Runs `work` in its turn, when no transaction is open and all before it is indexed. */
    exclusively: <T>(work: () => T): Promise<T> =>
      new Promise((resolve, reject) => {
        const run = () => {
          try {
            resolve(work())
          } catch (error) {
            reject(error)
          }
        }
        jobs.push({ run })
        void pump()
      }),
    /** A search was answered: for a moment writes leave room for more of them. */
    searched(): void {
      lastSearch = performance.now()
      turns.searched()
    },
    /** How long nothing has been written. */
    quietMs: (): number => (waiting > 0 ? 0 : performance.now() - lastWrite),
  }
}

type Turns = ReturnType<typeof createTurns>

/**
 * Shares the thread between the steps of writes and everything else. Where searches keep it busy its event loop does not
 * turn: a port hands over the next message as long as there is one, a thousand of them. So writes also go on after a search,
 * once the others have had their share.
 */
function createTurns() {
  let begunMs = 0
  /** Since the last rest: time of the steps, and of everything else. */
  let workedMs = 0
  let leftMs = 0
  let resume: (() => void) | undefined
  let dueMs = 0

  /** Runs the others until `schedule` calls back, or until they had `shareMs`. */
  async function giveWay(shareMs: number, schedule: (resume: () => void) => void): Promise<void> {
    const endedMs = performance.now()
    dueMs = endedMs + shareMs
    await new Promise<void>((resolve) => {
      resume = resolve
      schedule(resolve)
    })
    resume = undefined
    begunMs = performance.now()
    leftMs += begunMs - endedMs
  }
  return {
    begin(): void {
      begunMs = performance.now()
      workedMs = 0
      leftMs = 0
    },
    /** Before each step. */
    async next(): Promise<void> {
      const tookMs = performance.now() - begunMs
      workedMs += tookMs
      await giveWay(tookMs * leftPerWork, setImmediate)
    },
    /** Leaves the others the time that they have not had between the steps since the last rest. */
    async rest(): Promise<void> {
      workedMs += performance.now() - begunMs
      const restMs = workedMs * leftPerWork - leftMs
      workedMs = 0
      leftMs = 0
      begunMs = performance.now()
      if (restMs > 0) await giveWay(restMs, (resolve) => setTimeout(resolve, restMs))
      leftMs = 0
    },
    searched(): void {
      // In the next tick: the answer of this search goes out before.
      if (resume && performance.now() >= dueMs) process.nextTick(resume)
    },
  }
}

/** The jobs at the head that share one transaction. */
function takeSlice(jobs: (Job | Task)[]): Job[] {
  const slice: Job[] = []
  let points = 0
  for (let job = jobs[0]; job && !('run' in job); job = jobs[0]) {
    if (slice.length > 0 && points + job.points > pointsPerSlice) break
    points += job.points
    slice.push(job)
    jobs.shift()
  }
  return slice
}

/** A fault fails every call of the slice: what else they wrote may be applied, as the port allows. */
async function runSlice(file: PointsFile, slice: Job[], turns: Turns): Promise<void> {
  let done: ReturnType<typeof file.transaction<({ job: Job } & Written)[]>>
  try {
    done = file.transaction(() => slice.map((job) => ({ job, ...job.write() })))
  } catch (error) {
    for (const job of slice) job.reject(error)
    return
  }
  const { result: written, durable } = done
  // Where it fails before the steps of the indexes are done, jobs hear of it only then.
  durable.catch(() => undefined)
  for (const { job, added } of written) job.target.committed(added)
  for (const { job, changes } of written) {
    for (let i = 0; i < changes.length; i += pointsPerStep) {
      await turns.next()
      job.target.index(changes.slice(i, i + pointsPerStep))
    }
    // The next slice goes on meanwhile.
    if (job.last) durable.then(job.resolve, job.reject)
    else durable.catch(job.reject)
  }
}

function writeTo(target: WriteTarget, writes: Write[]): Written {
  if (target.exists()) return target.write(writes)
  throw new AppError('conflict', 'The generation was dropped while points were written.')
}
