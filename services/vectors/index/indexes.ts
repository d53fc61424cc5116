/** What is derived from vectors.commands: each index has generations, a reader group of its own, and an engine that holds it. */

/** What a rebuild asks of the engine that holds an index. */
export interface GenerationEngine {
  /** The generation that reads see. */
  liveGeneration(): Promise<number>
  /** Makes an empty generation that is not live; a half-built one of that number is emptied. */
  createGeneration(generation: number): Promise<void>
  /** Makes a filled generation fit for reads, while it is still written; may take long. Absent where nothing is to do. */
  finishGeneration?(generation: number): Promise<void>
  /** Puts a generation in the place of the live one, at once for every reader, and drops the old one. */
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
