/** A key for the secrets at rest, for processes with data directories of their own that share a database. */

import { randomBytes } from 'node:crypto'

export function newSecretKeyVariable(): { FLOTILLA_SECRET_KEY: string } {
  return { FLOTILLA_SECRET_KEY: randomBytes(32).toString('base64') }
}
