/** The collections that every platform has. All have the same dimension and metric. */

export const vectorDimension = 1536

export const collections = ['fleet_notes', 'posts', 'knowledgebase', 'almemsha'] as const

export type CollectionName = (typeof collections)[number]

/** HNSW parameters of the specification (M=16, ef=128), cosine metric. */
export const hnsw = { m: 16, efConstruction: 128, efSearch: 128 } as const

export function isCollection(name: string): name is CollectionName {
  return (collections as readonly string[]).includes(name)
}
