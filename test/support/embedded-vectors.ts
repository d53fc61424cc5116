/** The contract's harness for the drivers that keep their points in a folder. */

import { join } from 'node:path'
import { pino } from 'pino'
import { openEmbeddedVectors } from '#engines/vectors/embedded.ts'
import type { VectorsHarness } from '#test/contract/vectors-harness.ts'
import { temporaryFolder } from './temporary.ts'

export function embeddedVectorsHarness(index: 'zvec' | 'exact'): VectorsHarness {
  const dimension = 64
  const collections = ['first', 'second'] as const
  return {
    dimension,
    async place() {
      const directory = join(temporaryFolder(), 'a folder with spaces')
      const log = pino({ level: 'silent' })
      return {
        collections,
        open: () => openEmbeddedVectors({ directory, collections, dimension, log, index }),
      }
    },
  }
}
