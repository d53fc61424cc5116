/** The embedded driver keeps the promises of the event log. */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openEmbeddedLog } from '#engines/event-log/embedded.ts'
import { createSharedLog } from './event-log/shared-log.ts'
import { describeEventLog } from './event-log.contract.ts'

describeEventLog('embedded', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'fl-log-'))
  const { client, current, restart } = createSharedLog(() => openEmbeddedLog({ directory }))
  const forceCompaction = async (topic: string) => (await current()).compactNow(topic)
  const close = () => restart().then(() => rmSync(directory, { recursive: true }))
  return { open: client, restart, forceCompaction, close }
})
