/** A scope closes what it was given, last first. */

import { expect, test } from 'vitest'
import { createScope } from '#lib/resource.ts'

test('resources close in reverse order, once, also when one close fails', async () => {
  const closed: string[] = []
  const faults: string[] = []
  const scope = createScope((name) => faults.push(name))
  for (const name of ['engine', 'worker', 'server']) {
    scope.add(name, {
      close: async () => {
        closed.push(name)
        if (name === 'worker') throw new Error('stuck')
      },
    })
  }
  await Promise.all([scope.close(), scope.close()])
  expect(closed).toEqual(['server', 'worker', 'engine'])
  expect(faults).toEqual(['worker'])
})
