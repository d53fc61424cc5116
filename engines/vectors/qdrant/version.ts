/** Which Qdrant can be used: one that knows conditional upserts, which older ones take for unconditional ones. */

import type { QdrantClient } from '@qdrant/js-client-rest'
import type { Call } from './calls.ts'

const oldest = { major: 1, minor: 16 }

/** What is wrong with the server's version; null when nothing is. */
export async function tooOld(client: QdrantClient, call: Call): Promise<string | null> {
  const { version } = await call('version', () => client.versionInfo())
  const [major = 0, minor = 0] = version.split('.').map(Number)
  if (major > oldest.major || (major === oldest.major && minor >= oldest.minor)) return null
  return `Qdrant ${version} is too old: ${oldest.major}.${oldest.minor} or newer is needed, for conditional writes.`
}
