/** For handlers of tests whose records are made from nothing that was read. */

import type { BasedParts } from '#services/vectors/write/based-records.ts'

export const nothingBased: BasedParts = {
  held: async () => [],
  correct: async () => {},
}
