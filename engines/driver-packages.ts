/** Packages of distributed drivers: npm installs them only where they are asked for, since embedded engines need none. */

import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { AppError } from '#lib/errors.ts'

const require = createRequire(import.meta.url)

/** The packages of each driver. Their versions are among the peer dependencies in package.json. */
const packages: Readonly<Record<string, readonly string[]>> = {
  kafka: ['@platformatic/kafka'],
  confluent: ['@kafkajs/confluent-schema-registry'],
  'qdrant-grpc': [
    '@qdrant/js-client-grpc',
    '@connectrpc/connect-node',
    '@connectrpc/connect',
    '@bufbuild/protobuf',
  ],
  firebase: ['firebase-admin'],
}

/** Throws AppError `invalid_configuration`, which says what to install, where a chosen driver has no package. */
export function checkDriverPackages(
  choices: Iterable<{ driver: string; variable: string }>,
  isInstalled: (name: string) => boolean = isOnPath,
): void {
  const missing = [...choices].flatMap(({ driver, variable }) =>
    (packages[driver] ?? []).filter((name) => !isInstalled(name)).map((name) => ({ name, variable })),
  )
  if (missing.length === 0) return
  const { peerDependencies } = require('../package.json') as { peerDependencies: Record<string, string> }
  // `^3.9.0` is any 3 from there on, and 3 is one that no shell takes for something else.
  const wanted = missing.map(({ name }) => `${name}@${peerDependencies[name]?.replace(/^\^(\d+).*/, '$1')}`)
  const variables = [...new Set(missing.map(({ variable }) => variable))]
  const needs = variables.length === 1 ? 'needs' : 'need'
  const what = missing.length === 1 ? 'a package that is' : 'packages that are'
  throw new AppError(
    'invalid_configuration',
    `${variables.join(' and ')} ${needs} ${what} not installed: npm install ${wanted.join(' ')}`,
  )
}

function isOnPath(name: string): boolean {
  const folders = require.resolve.paths(name) ?? []
  return folders.some((folder) => existsSync(join(folder, name, 'package.json')))
}
