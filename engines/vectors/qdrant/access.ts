/** When calls run: on a prepared Qdrant, on collections that are there, repeated where one was just replaced. */

import { backoffMs, sleep } from '#lib/backoff.ts'
import { AppError } from '#lib/errors.ts'
import { parseStoredName, vectorsUnavailable } from '../collections.ts'
import { CollectionMissing } from './attempts.ts'
import { type createGenerations, noGeneration } from './generations.ts'

const prepareWait = { baseMs: 500, maxMs: 10_000 }

/** `collections` are always there. */
export function createAccess(
  readiness: ReturnType<typeof keepReady>,
  generations: ReturnType<typeof createGenerations>,
  collections: readonly string[],
) {
  /** Runs work on a prepared Qdrant, and repeats it once when a collection was just replaced, or was lost. */
  async function run<T>(work: () => Promise<T>): Promise<T> {
    for (let attempt = 0; ; attempt++) {
      if (readiness.closed()) throw new AppError('shutting_down', 'The vector engine is closed.')
      try {
        await readiness.ready()
        return await work()
      } catch (error) {
        if (!(error instanceof CollectionMissing)) throw error
        readiness.forget()
        if (attempt > 0) throw vectorsUnavailable()
      }
    }
  }
  const isAlwaysThere = (collection: string) => collections.includes(collection)

  /** Throws AppError `collection_not_found`. */
  function demandName(collection: string): void {
    if (isAlwaysThere(collection) || parseStoredName(collection)) return
    throw new AppError('collection_not_found', `There is no collection "${collection}".`)
  }
  /** `nothing` where no point was ever written into it. */
  async function read<T>(collection: string, nothing: T, work: () => Promise<T>): Promise<T> {
    demandName(collection)
    if (isAlwaysThere(collection)) return run(work)
    try {
      await readiness.ready()
      return await work()
    } catch (error) {
      if (!(error instanceof CollectionMissing)) throw error
      return (await run(() => generations.isAliased(collection))) ? run(work) : nothing
    }
  }
  /** As `read`, of one generation. Throws AppError `conflict` for one that is not there. */
  async function readIn<T>(collection: string, generation: number, nothing: T, work: () => Promise<T>) {
    demandName(collection)
    return run(async () => {
      try {
        return await work()
      } catch (error) {
        if (!(error instanceof CollectionMissing)) throw error
        if (isAlwaysThere(collection)) throw noGeneration(generation)
        await generations.demandThere(generation)
        return nothing
      }
    })
  }
  /** As `run`; a collection that is missing is made. */
  async function write(collection: string, generation: number | undefined, work: () => Promise<void>) {
    demandName(collection)
    if (isAlwaysThere(collection)) return run(work)
    try {
      await readiness.ready()
      await work()
    } catch (error) {
      if (!(error instanceof CollectionMissing)) throw error
      await run(async () => generations.makeOwn(collection, generation ?? (await generations.live())))
      await run(work)
    }
  }
  /** Those that are there. */
  async function present(): Promise<string[]> {
    const own = [...(await generations.aliased()).keys()].filter((name) => !isAlwaysThere(name))
    return [...collections, ...own]
  }
  return { isAlwaysThere, demandName, run, read, readIn, write, present }
}

/** Prepares Qdrant once, shared by all calls; in the background it is tried until it works. */
export function keepReady(prepare: () => Promise<void>) {
  const stop = new AbortController()
  let preparing: Promise<void> | undefined

  function ready(): Promise<void> {
    preparing ??= prepare().catch((error: unknown) => {
      preparing = undefined
      throw error
    })
    return preparing
  }
  async function tryUntilReady(): Promise<void> {
    for (let attempt = 0; !stop.signal.aborted; attempt++) {
      try {
        return await ready()
      } catch {
        await sleep(prepareWait.baseMs + backoffMs(attempt, prepareWait), stop.signal)
      }
    }
  }
  void tryUntilReady()
  return {
    ready,
    forget: () => {
      preparing = undefined
    },
    closed: () => stop.signal.aborted,
    close: () => stop.abort(),
  }
}
