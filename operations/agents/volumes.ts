/** Where the main API may put private keys: volumes below one folder, by their names. */

import { join, resolve } from 'node:path'
import { Type } from 'typebox'
import { type Environment, loadConfig } from '#lib/config.ts'
import { homeOf } from '#runtime/start/settings.ts'
import { agentIdRule } from '#services/access/agents/agents.ts'

export const volumeSettings = Type.Object({
  AGENT_VOLUMES_DIR: Type.Optional(
    Type.String({
      description:
        "the folder whose volumes take agents' private keys over HTTP (default: `agents` in FLOTILLA_HOME)",
    }),
  ),
})

/** A name, never a path: it has no separator, and begins with neither a dot nor a hyphen. */
export const volumeName = Type.String({
  pattern: '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$',
  rule: agentIdRule,
  description: 'Name of a volume below AGENT_VOLUMES_DIR: the private key is written there as `ed25519.pem`.',
  examples: ['whale'],
})

/** The folder of a volume whose name was checked. */
export function volumeFolder(env: Environment, name: string): string {
  const { AGENT_VOLUMES_DIR } = loadConfig(volumeSettings, env)
  return join(resolve(AGENT_VOLUMES_DIR ?? join(homeOf(env), 'agents')), name)
}
