/** In place of the registry of collections, where there are the four alone. */

import type { Collections } from '#services/vectors/collections/registry.ts'

export const theFourAlone: Pick<Collections, 'standing' | 'beyondTheFour'> = {
  standing: () => 'written',
  beyondTheFour: () => undefined,
}
