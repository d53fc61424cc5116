/**
 * The indexes that are derived from vectors.commands. Each has generations, reader groups and an engine that holds it.
 */

/** What a rebuild needs of the engine that holds an index. */
export interface GenerationEngine {
  /** The generation that reads see. */
  liveGeneration(): Promise<number>
  /** Makes an empty generation that is not live; a half-built one of that number is emptied. */
  createGeneration(generation: number): Promise<void>
  /**
   * Prepares a filled generation for reads while it is still written; may take long. Absent where nothing is needed.
   */
  finishGeneration?(generation: number): Promise<void>
  /** Replaces the live generation by this one, at once for every reader, and drops the old one. */
  promoteGeneration(generation: number): Promise<void>
}

export interface Index {
  name: 'vectors' | 'relational'
  /** The service that writes it; also the name of its first generation's reader group. */
  writer: string
}

export const vectorsIndex: Index = { name: 'vectors', writer: 'vector-writer' }
export const relationalIndex: Index = { name: 'relational', writer: 'relational-writer' }
export const indexes: readonly Index[] = [vectorsIndex, relationalIndex]
