/** Parsing in a thread gives what parsing here gives. */

import { expect, test } from 'vitest'
import { parseYaml } from '#runtime/yaml-file/parse-yaml.ts'
import { parseInThread } from '#runtime/yaml-file/yaml-file.ts'

test('a thread of its own finds the same values and faults', async () => {
  for (const text of ['targets: {a: {retry: 3}}', 'targets: *none', 'targets: {a: 1, a: 2}']) {
    expect(await parseInThread(text)).toEqual(parseYaml(text))
  }
})
