/** The settings of nodes: which nodes file the run gateway and the dispatcher read. */

import { Type } from 'typebox'
import { type Environment, loadConfig } from '#lib/config.ts'
import { type NamedFile, namedFile } from '#runtime/yaml-file/named-file.ts'
import { loadNodes } from './nodes-file.ts'

/** Of every service that reads the file. */
export const nodeSettings = Type.Object({
  RUN_NODES_FILE: Type.Optional(
    Type.String({
      description:
        'YAML file of the nodes that agents run at, read again when it changes; without it `nodes.yaml` in the data directory, which may be absent',
    }),
  ),
})

/** For a service's `check`: throws AppError `invalid_configuration` with the faults of the file. */
export function checkNodesFile(env: Environment): void {
  const { path, optional } = nodesFileOf(env)
  loadNodes(path, env, { optional })
}

/** The file that the environment names, absolute; only the default one may be absent. */
export function nodesFileOf(env: Environment): NamedFile {
  return namedFile(loadConfig(nodeSettings, env).RUN_NODES_FILE, 'nodes.yaml', env)
}
