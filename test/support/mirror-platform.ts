/** A platform that runs only the relational-writer, with records that the test writes. */

import { Writable } from 'node:stream'
import pino from 'pino'
import { onTestFinished } from 'vitest'
import type { Mirror } from '#engines/relational/mirror/port.ts'
import { vectorDimension } from '#engines/vectors/collections.ts'
import { readLag } from '#operations/lag.ts'
import type { Platform } from '#runtime/start/platform.ts'
import { startPlatform } from '#runtime/start/start.ts'
import { migrationFolders } from '#services/migrations.ts'
import { relationalWriter } from '#services/vectors/relational/service.ts'
import { vectorsCommands } from '#topics/catalog.ts'
import { eventually } from './eventually.ts'

/** A record: null deletes. `raw` is written instead of the vector and the payload. */
export interface Written {
  id: string
  payload?: Record<string, unknown> | null
  seed?: number
  collection?: string
  operation?: string
  raw?: { vector?: Buffer; payload?: string }
}

export interface MirrorPlatform {
  platform: Platform
  mirror: Mirror
  /** Log lines, warnings and worse. */
  lines: string[]
  publish(records: Written[]): Promise<void>
  /** Resolves when the writer has worked through all that was published. */
  drained(timeoutMs?: number): Promise<void>
  /** Rows of both tables: `collection/id` → payload; of one collection, or of all. */
  rows(collection?: string): Promise<Record<string, unknown>>
  close(): Promise<void>
}

/** Closed at the end, by default that of the running test, where it is not closed before. */
export async function openMirrorPlatform(
  env: Record<string, string>,
  atEnd: (close: () => Promise<void>) => void = onTestFinished,
): Promise<MirrorPlatform> {
  const lines: string[] = []
  const sink = new Writable({
    write(chunk, _, then) {
      lines.push(String(chunk))
      then()
    },
  })
  const running = await startPlatform({
    migrations: migrationFolders,
    services: [relationalWriter],
    chosen: [],
    env: { OPS_PORT: '0', ...env },
    log: pino({ level: 'warn' }, sink),
    print() {},
    control: () => async () => null,
  })
  const { platform } = running
  const { mirror } = platform.engines
  let closing: Promise<void> | undefined
  const close = () => {
    closing ??= running.close()
    return closing
  }
  atEnd(close)
  return {
    platform,
    mirror,
    lines,
    close,
    async publish(records) {
      await platform.publisher.publish(
        vectorsCommands,
        records.map(({ id, payload = {}, seed = 0, collection = 'posts', operation, raw }) => ({
          key: { collection, id },
          value:
            payload === null
              ? null
              : {
                  vector: raw?.vector ?? vectorOf(seed),
                  payload: raw?.payload ?? JSON.stringify(payload),
                  embedder: null,
                  making: null,
                  expires_at: null,
                },
          ...(operation ? { headers: { operation } } : {}),
        })),
      )
    },
    async drained(timeoutMs = 60_000) {
      await eventually(
        'the mirror has everything',
        async () => {
          const groups = await readLag(platform)
          const own = groups.filter(({ group }) => group.startsWith('relational-writer'))
          return own.length > 0 && own.every(({ lag, members }) => lag === 0 && members > 0)
        },
        timeoutMs,
      )
    },
    async rows(collection) {
      const { rows } = await mirror.write.query<{ place: string; payload: unknown }>(
        `select collection || '/' || id as place, payload
         from vectors.embeddings full join vectors.metadata using (collection, id)
         where $1::text is null or collection = $1 order by 1`,
        [collection ?? null],
      )
      return Object.fromEntries(rows.map((row) => [row.place, row.payload]))
    },
  }
}

function vectorOf(seed: number): Buffer {
  const vector = Float32Array.from({ length: vectorDimension }, (_, i) => Math.sin((seed + 1) * (i + 1)))
  return Buffer.from(vector.buffer)
}
