/** Audit notes that are written while searches keep coming, compared with the searches. */

import type { BenchRow } from './bench.ts'
import { runLoad, type Target } from './load.ts'
import type { PlatformStage } from './platform-stage.ts'

const clients = 8
const requests = 8_000
/** A note is gathered with others, published and applied within this time, ms. */
const notedWithinMs = 5_000

/** `bodies` are sent in turn. Begins when every note of the searches before is written. */
export async function searchNotes(
  stage: Pick<PlatformStage, 'notes' | 'lag'>,
  target: Target,
  bodies: readonly Buffer[],
  report: (text: string) => void,
): Promise<BenchRow> {
  const before = await stage.notes()
  const begun = performance.now()
  await runLoad(target, bodies, clients, requests)
  const seconds = (performance.now() - begun) / 1_000
  const notes = (await stage.notes()) - before
  const lag = await stage.lag('audit-writer')
  report(
    `  notes: ${notes} of ${requests} searches in ${seconds.toFixed(1)} s are written, audit-writer lag ${lag}`,
  )
  const searchesPerSecond = requests / seconds
  const notedShare = Math.max(0, seconds - notedWithinMs / 1_000) / seconds
  return {
    what: `audit notes by the end of searches of ${clients} clients`,
    unit: 'notes/s',
    measured: notes / seconds,
    peer: {
      what: `searches until ${notedWithinMs / 1_000} s before the end`,
      value: searchesPerSecond * notedShare,
    },
    bar: { min: 1 },
    note: `${searchesPerSecond.toFixed(0)} searches/s, ${((100 * notes) / requests).toFixed(0)} % of them noted; audit-writer lag ${lag}`,
  }
}
