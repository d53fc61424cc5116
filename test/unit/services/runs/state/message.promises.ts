/** The message of a run, whole and cut, on any relational engine. */

import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { migrate } from '#engines/relational/migrate.ts'
import type { Relational } from '#engines/relational/port.ts'
import { migrationFolders } from '#services/migrations.ts'
import { listRuns, readRun } from '#services/runs/state/read.ts'
import { type Part, spokenText } from '#services/runs/state/types.ts'
import { silentLog } from '../../../../support/relational.ts'
import { accept } from '../../../../support/run-rows.ts'

export function describeMessages(open: () => Promise<Relational>): void {
  let relational: Relational
  beforeAll(async () => {
    relational = await open()
    await migrate(relational, silentLog, migrationFolders)
  })
  afterAll(() => relational?.close())
  afterEach(() => relational.query('truncate platform.runs, platform.run_trees, platform.outbox'))

  async function listed(): Promise<(string | null)[]> {
    const { runs } = await listRuns(relational, { own: null, limit: 10 })
    return runs.map(({ text }) => text)
  }
  const ofParts = (parts: Part[]) => accept(relational, { message: { role: 'user', parts } })

  describe('the message of a run', () => {
    const long = `${'🦀'.repeat(150)}${'é'.repeat(100)}`
    test.each<[string, Part[], string]>([
      ['one part', [{ text: 'hello' }], 'hello'],
      ['several parts', [{ text: 'one' }, { text: 'two' }], 'one\n\ntwo'],
      ['a long text', [{ text: long }], `${'🦀'.repeat(150)}${'é'.repeat(50)}`],
      ['a first part that is long', [{ text: long }, { text: 'more' }], [...long].slice(0, 200).join('')],
      [
        'thoughts',
        [
          { text: 'thinks', thought: true },
          { text: 'says', thought: false },
        ],
        'says',
      ],
      ['quotes and backslashes', [{ text: '"\\ud800\\\\ \\u0000' }], '"\\ud800\\\\ \\u0000'],
      ['half a surrogate', [{ text: '\\\ud83d and \ud83e\udd80' }], '\\\ufffd and 🦀'],
      ['no text', [{ functionResponse: { name: 'x', response: {} } }], ''],
    ])('is cut in lists, and whole alone: %s', async (_, parts, start) => {
      const { runId, text } = await ofParts(parts)
      expect(await listed()).toEqual([start])
      expect(text).toBe(spokenText({ parts }))
      expect(await readRun(relational, runId)).toMatchObject({ text, message: { role: 'user', parts } })
    })

    test('is read where a run of before has no beginning of it', async () => {
      await ofParts([{ text: long }])
      await relational.query('update platform.runs set message_start = null')
      expect(await listed()).toEqual([[...long].slice(0, 200).join('')])
    })

    test('is null where there is none', async () => {
      const { runId, text } = await accept(relational, { message: null, trigger: 'report' })
      expect([text, await listed()]).toEqual([null, [null]])
      expect(await readRun(relational, runId)).toMatchObject({ text: null, message: null })
    })

    test('lists read no more than its beginning', async () => {
      await ofParts([{ text: 'see' }, { inlineData: { mimeType: 'image/png', data: 'A'.repeat(1_000_000) } }])
      const { rows } = await relational.query<{ start: string }>(
        'select message_start as start from platform.runs',
      )
      expect(rows).toEqual([{ start: 'see' }])
      const { runs } = await listRuns(relational, { own: null, limit: 10 })
      expect(JSON.stringify(runs).length).toBeLessThan(2_000)
    })
  })
}
