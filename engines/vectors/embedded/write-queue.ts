/** Writes come in, run in order in small slices, and resolve when durable and indexed; searches run between slices. */

import type { DatabaseSync } from 'node:sqlite'
import { AppError } from '#lib/errors.ts'
import { breathe } from './breathe.ts'
import type { Change, Write } from './points-table.ts'

/** A search waits at most for one slice. */
const pointsPerSlice = 16
/** One commit syncs the disk once; more points make it longer, and a search waits for it. */
const pointsPerCommit = 128
/** Operations that may wait; callers hold at most a few batches each. */
const operationsMax = 200_000

/** Where writes of one collection go. */
export interface WriteTarget {
  /** False once its generation is dropped. */
  exists(): boolean
  write(writes: Write[]): { changes: Change[]; added: number }
  /** Called after the commit. */
  committed(added: number): void
  /** Takes the changes into the index; never throws. */
  index(changes: Change[]): void
}

interface Job {
  target: WriteTarget
  writes: Write[]
  last: boolean
  resolve(): void
  reject(error: unknown): void
}

export interface WriteQueue {
  add(target: WriteTarget, writes: Write[]): Promise<void>
  /** Runs `work` when no transaction is open and nothing before it is unindexed, in its turn. */
  exclusively<T>(work: () => T): Promise<T>
  /** Operations not yet applied. */
  waiting(): number
}

export function createWriteQueue(db: DatabaseSync): WriteQueue {
  const jobs: (Job | { run(): void })[] = []
  let waiting = 0
  let pumping = false

  async function pump(): Promise<void> {
    if (pumping) return
    pumping = true
    for (let next = jobs[0]; next; next = jobs[0]) {
      await breathe()
      if ('run' in next) {
        jobs.shift()
        next.run()
        continue
      }
      const group = takeGroup(jobs)
      await runGroup(db, group)
      for (const job of group) waiting -= job.writes.length
    }
    // In the same tick as the look at the empty queue: what is added from now on starts a new pump.
    pumping = false
  }
  return {
    async add(target, writes) {
      if (writes.length === 0) return
      if (waiting + writes.length > operationsMax) {
        throw new AppError('overloaded', 'Too many points wait to be written; try again in a second.', {
          retryAfter: 1,
        })
      }
      waiting += writes.length
      await new Promise<void>((resolve, reject) => {
        for (let i = 0; i < writes.length; i += pointsPerCommit) {
          const part = writes.slice(i, i + pointsPerCommit)
          jobs.push({ target, writes: part, last: i + pointsPerCommit >= writes.length, resolve, reject })
        }
        void pump()
      })
    },
    exclusively: (work) =>
      new Promise((resolve, reject) => {
        jobs.push({
          run() {
            try {
              resolve(work())
            } catch (error) {
              reject(error)
            }
          },
        })
        void pump()
      }),
    waiting: () => waiting,
  }
}

/** The jobs at the head that share one commit. */
function takeGroup(jobs: (Job | { run(): void })[]): Job[] {
  const group: Job[] = []
  let points = 0
  for (let job = jobs[0]; job && !('run' in job); job = jobs[0]) {
    if (group.length > 0 && points + job.writes.length > pointsPerCommit) break
    points += job.writes.length
    group.push(job)
    jobs.shift()
  }
  return group
}

/** One transaction for the group. A fault fails every call in it: its other parts may still be applied. */
async function runGroup(db: DatabaseSync, group: Job[]): Promise<void> {
  const written: { job: Job; changes: Change[]; added: number }[] = []
  try {
    db.exec('begin immediate')
    for (const job of group) written.push({ job, ...(await writeJob(job)) })
    db.exec('commit')
  } catch (error) {
    if (db.isTransaction) db.exec('rollback')
    for (const job of group) job.reject(error)
    return
  }
  for (const { job, added } of written) job.target.committed(added)
  for (const { job, changes } of written) {
    for (let i = 0; i < changes.length; i += pointsPerSlice) {
      await breathe()
      job.target.index(changes.slice(i, i + pointsPerSlice))
    }
    if (job.last) job.resolve()
  }
}

async function writeJob({ target, writes }: Job): Promise<{ changes: Change[]; added: number }> {
  if (!target.exists())
    throw new AppError('conflict', 'The generation was dropped while points were written.')
  const changes: Change[] = []
  let added = 0
  for (let i = 0; i < writes.length; i += pointsPerSlice) {
    await breathe()
    const slice = target.write(writes.slice(i, i + pointsPerSlice))
    for (const change of slice.changes) changes.push(change)
    added += slice.added
  }
  return { changes, added }
}
