/** Published migrations never change, not in a comment: databases know them by their hashes. */

import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { expect, it } from 'vitest'
import { migrationFolders } from '#services/migrations.ts'

/** The beginnings of their SHA-256. Who adds one adds it here once it is published. */
const published: Record<string, string> = {
  '001-platform.sql': '699016f30d08f25e',
  '002-webhooks.sql': '978821bfea5de170',
  '003-limits.sql': '4b55c247978042e6',
  '004-failures-of-indexes.sql': '2afe5d6ab4929187',
  '005-limits-by-version.sql': '38b3d8c4d28cc560',
  '006-stuck-records.sql': 'cd380858c9cd34ba',
  '007-agent-limits.sql': 'a0a4f0a61f17df52',
  '008-secrets.sql': '469afabac5370417',
  '009-agent-keys.sql': '3caba7831aa98bc2',
  '010-people.sql': '23941b5ca3cde404',
  '011-admin-audit.sql': 'a0344973f6bc40e5',
  '012-identity-tokens.sql': 'e6bea4f5baa98418',
  '013-hub.sql': '43f5fbffd70ad046',
  '014-goals.sql': '95ae60c33828c565',
  '015-runs.sql': '769ceeebce5dedcf',
  '016-runs-at-once.sql': '99a14bb8aac28f82',
  '017-turns.sql': '46afe7e6d8130a38',
  '018-users.sql': '3ad8baa3373f9621',
  '019-emails.sql': '8af8af4697b6750d',
  '020-collections.sql': '6a595d141be518f2',
  '021-embedders.sql': '191b2050f4672696',
  '022-payload-indexes.sql': '76b6c32f0dbbe61a',
  '024-questions.sql': '868ddc3276953a42',
  '025-schedules.sql': '0d69a66308b5dc20',
  '023-sessions.sql': 'e65d6a49c1bbd4c7',
}

it('is what databases have applied', () => {
  const files = migrationFolders.flatMap((folder) =>
    readdirSync(folder).map((name) => join(String(folder), name)),
  )
  const hashes = files.map((file) => [
    basename(file),
    createHash('sha256').update(readFileSync(file)).digest('hex').slice(0, 16),
  ])
  expect(Object.fromEntries(hashes)).toEqual(published)
})
