/** The exact vector engine: the embedded one without a native index, so that a query is compared with every point. */

import { type EmbeddedVectorsOptions, openEmbeddedVectors } from './embedded.ts'
import type { VectorStore } from './port.ts'

/** Opens the same files as the embedded engine, and may be followed by it. */
export function openExactVectors(options: Omit<EmbeddedVectorsOptions, 'index'>): Promise<VectorStore> {
  return openEmbeddedVectors({ ...options, index: 'exact' })
}
