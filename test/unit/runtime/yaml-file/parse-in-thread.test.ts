/** Parsing in a thread gives what parsing here gives. */

import { expect, test } from 'vitest'
import { parseText } from '#runtime/yaml-file/located-yaml.ts'
import { parseInThread } from '#runtime/yaml-file/parse-in-thread.ts'

test('a thread of its own finds the same values and faults', async () => {
  for (const text of ['targets: {a: {retry: 3}}', 'targets: *none', 'targets: {a: 1, a: 2}']) {
    expect(await parseInThread(text)).toEqual(parseText(text))
  }
})
