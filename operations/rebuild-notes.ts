/** Publishes every note of the hub once more, so that the note-indexer writes all of their points again. */

import { Type } from 'typebox'
import { noteKind } from '#services/records/notes/notes.ts'
import { rewriteRecords } from '#services/records/store/write.ts'
import { defineAction } from './action.ts'

const label = 'publishing notes'

export const rebuildNotesAction = defineAction({
  name: 'rebuild notes',
  summary: 'Publish every note once more, so that all their points in fleet_notes are written again',
  change: { action: 'index.rebuild', target: () => 'notes' },
  services: ['outbox-publisher', 'note-indexer'],
  args: Type.Object({}),
  /** Resolves when their records are in the outbox, in the order of each note's changes. */
  async run({ platform, output, signal, describe }) {
    const startedAt = Date.now()
    const { relational } = platform.engines
    const { rows } = await relational.query<{ count: number }>('select count(*) from platform.notes')
    const total = rows[0]!.count
    const records = await rewriteRecords(relational, noteKind, {
      signal,
      written: (done) => output.progress({ label, done, total: Math.max(done, total) }),
    })
    describe({ count: records })
    return { index: 'notes', records, took_ms: Date.now() - startedAt }
  },
  cli: [
    {
      example: 'flotilla rebuild notes',
      render: ({ records, took_ms }) => `${records} notes published again, ${took_ms} ms`,
    },
  ],
})
