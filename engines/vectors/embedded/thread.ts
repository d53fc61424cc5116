/** The worker thread of the embedded vector engine; points go to the main thread packed, with their buffers moved. */

import { setImmediate } from 'node:timers/promises'
import { AppError } from '#lib/errors.ts'
import { emit, ownData, serveWorker, Transferred } from '#lib/worker-rpc.ts'
import type { Filter, ScrollQuery, SearchQuery } from '../port.ts'
import { type Engine, type EngineOptions, openEngine } from './engine.ts'
import type { MessageLog } from './message-log.ts'
import { type PackedWrites, packPoints, unpackWrites } from './packing.ts'

const log: MessageLog = (level, message, fields = {}) => emit('log', { level, message, fields })

const rowsPerSweep = 512

let opened: Promise<Engine> | undefined

function engine(): Promise<Engine> {
  if (!opened) throw new AppError('vector_engine_unavailable', 'The vector engine is not open.')
  return opened
}

async function collection(name: string) {
  return (await engine()).generations.collection(name)
}

const handlers = {
  async open(): Promise<Engine['driver']> {
    opened ??= openEngine(ownData<EngineOptions>(), log)
    return (await opened).driver
  },
  async apply(name: string, writes: PackedWrites, generation: number | undefined): Promise<void> {
    const { generations, queue } = await engine()
    await queue.add(generations.collection(name, generation).target, unpackWrites(writes))
  },
  /** Of the live generation, little by little, so that no call waits for a large table. */
  async forgetDeletions(before: number): Promise<void> {
    const { generations, queue } = await engine()
    for (const each of generations.all(generations.live())) {
      while (await queue.exclusively(() => each.forgetDeletions(before, rowsPerSweep))) await setImmediate()
    }
  },
  async search(name: string, query: SearchQuery) {
    const { generations, queue } = await engine()
    const { points, eligible } = await generations.collection(name).read((reader) => reader.search(query))
    queue.searched()
    const isBare = query.withPayload === false && query.withVector !== true
    const packed = packPoints(points, query, isBare ? undefined : query.bytesMax)
    const scores = points.map((point) => point.score)
    return new Transferred({ ...packed.value, scores, eligible }, packed.transfer)
  },
  async scroll(name: string, query: ScrollQuery) {
    const { points, next } = await (await collection(name)).read((reader) => reader.scroll(query))
    const packed = packPoints(points, query)
    return new Transferred({ ...packed.value, next }, packed.transfer)
  },
  async count(name: string, filter: Filter | undefined): Promise<number> {
    return (await collection(name)).read((reader) => reader.count(filter))
  },
  async get(name: string, ids: string[]) {
    const points = await (await collection(name)).read((reader) => reader.get(ids))
    return packPoints(points, { withPayload: true, withVector: true })
  },
  async stats() {
    const { generations } = await engine()
    const live = generations.live()
    return generations.all(live).map((each) => each.stats())
  },
  async liveGeneration(): Promise<number> {
    return (await engine()).generations.live()
  },
  async createGeneration(generation: number): Promise<void> {
    await (await engine()).generations.create(generation)
  },
  async promoteGeneration(generation: number): Promise<void> {
    await (await engine()).generations.promote(generation)
  },
  async dropGeneration(generation: number): Promise<void> {
    await (await engine()).generations.drop(generation)
  },
  async ping(): Promise<void> {
    await engine()
  },
  async close(): Promise<void> {
    await (await opened)?.close()
  },
}

export type EmbeddedHandlers = typeof handlers

serveWorker(handlers)
