/** Builds an image as its Dockerfile says, step by step, into folders: there need not be a container engine. */

import { cpSync, existsSync, globSync, mkdirSync, readFileSync, statSync } from 'node:fs'
import { createRequire } from 'node:module'
import { basename, join, resolve } from 'node:path'
import { installDockerfileTools } from '../../../scripts/servers/install.ts'
import { makeBaseImage, runInside } from './container.ts'

/** The result of a stage. */
export interface Image {
  /** Its file system, but for /usr. */
  root: string
  env: Record<string, string>
  workdir: string
  user: string
  volumes: string[]
  entrypoint: string[]
  command: string[]
  healthCheck: string[]
}

/** The parts of dockerfile-ast that are used. */
interface Instruction {
  getKeyword(): string
  getArgumentsContent(): string | null
  getArguments(): { getValue(): string }[]
  getFlags?(): { getName(): string; getValue(): string }[]
  getJSONStrings?(): { getJSONValue(): string }[]
  getProperties?(): { getName(): string; getValue(): string }[]
  getImage?(): string
  getBuildStage?(): string | null
}

const stepMs = 900_000

interface Build {
  file: string
  /** Where the files of the clone are. */
  context: string
  /** Folders that replace stages, as `--build-context` does. */
  contexts?: Readonly<Record<string, string>>
  /** An empty folder: each stage gets one in it. */
  folder: string
}

/** Builds the last stage and those that it needs. Throws for an instruction that it does not know. */
export async function buildImage({ file, context, contexts = {}, folder }: Build): Promise<Image> {
  const { DockerfileParser } = createRequire(await installDockerfileTools())('dockerfile-ast')
  const instructions: Instruction[] = DockerfileParser.parse(readFileSync(file, 'utf8')).getInstructions()
  const stages: Instruction[][] = []
  for (const one of instructions) {
    if (one.getKeyword() === 'FROM') stages.push([])
    stages.at(-1)!.push(one)
  }
  const built = new Map<string, Promise<string>>(
    Object.entries(contexts).map(([name, path]) => [name, Promise.resolve(path)]),
  )
  function rootOf(name: string): Promise<string> {
    const known = built.get(name)
    if (known) return known
    const stage = stages.find(([from]) => from!.getBuildStage!() === name)
    if (!stage) throw new Error(`there is no stage ${name}`)
    const made = buildStage(stage, { root: join(folder, name), context, rootOf }).then(({ root }) => root)
    built.set(name, made)
    return made
  }
  return buildStage(stages.at(-1)!, { root: join(folder, 'image'), context, rootOf })
}

interface Surroundings {
  root: string
  context: string
  rootOf(stage: string): Promise<string>
}

async function buildStage([from, ...steps]: Instruction[], around: Surroundings): Promise<Image> {
  const { root } = around
  mkdirSync(root, { recursive: true })
  if (from!.getImage!() !== 'scratch') makeBaseImage(root)
  const image: Image = {
    root,
    env: { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' },
    workdir: '/',
    user: '0:0',
    volumes: [],
    entrypoint: [],
    command: [],
    healthCheck: [],
  }
  for (const step of steps) await apply(step, image, around)
  return image
}

async function apply(step: Instruction, image: Image, around: Surroundings): Promise<void> {
  const { root } = image
  const words = step.getArguments().map((one) => one.getValue())
  const json = () => step.getJSONStrings!().map((one) => one.getJSONValue())
  switch (step.getKeyword()) {
    case 'COPY': {
      const stage = step.getFlags!()
        .find((flag) => flag.getName() === 'from')
        ?.getValue()
      const target = words.pop()!
      const source = stage === undefined ? around.context : await around.rootOf(stage)
      return copy(source, words, join(root, resolve(image.workdir, target)), target.endsWith('/'))
    }
    case 'RUN': {
      const args = ['/bin/sh', '-c', step.getArgumentsContent()!]
      await runInside(root, { args, env: image.env, workdir: image.workdir, user: image.user }, stepMs)
      return
    }
    case 'WORKDIR':
      image.workdir = resolve(image.workdir, words[0]!)
      mkdirSync(join(root, image.workdir), { recursive: true })
      return
    case 'ENV':
      for (const one of step.getProperties!()) {
        const value = one.getValue().replace(/\$\{?(\w+)\}?/g, (_all, name: string) => image.env[name] ?? '')
        image.env[one.getName()] = value
      }
      return
    case 'USER':
      image.user = words[0]!
      return
    case 'VOLUME':
      image.volumes.push(...words)
      return
    case 'ENTRYPOINT':
      image.entrypoint = json()
      return
    case 'CMD':
      image.command = json()
      return
    case 'HEALTHCHECK':
      image.healthCheck = JSON.parse(step.getArgumentsContent()!.replace(/^CMD /, '')) as string[]
      return
    case 'LABEL':
      return
    default:
      throw new Error(`nothing here does what ${step.getKeyword()} does`)
  }
}

/** A folder's contents are copied, a file itself; names may have an asterisk. */
function copy(source: string, names: string[], target: string, isFolder: boolean): void {
  const found = names.flatMap((name) => {
    const path = join('.', name)
    return path.includes('*') ? globSync(path, { cwd: source }) : path
  })
  if (found.length === 0) throw new Error(`COPY finds no ${names.join(' ')}`)
  for (const name of found) {
    const path = join(source, name)
    const intoFolder = isFolder || (existsSync(target) && statSync(target).isDirectory())
    const to = statSync(path).isDirectory() || !intoFolder ? target : join(target, basename(path))
    cpSync(path, to, { recursive: true, verbatimSymlinks: true })
  }
}

/** Those of the files that a build gets to see: .dockerignore leaves the others out. */
export async function seenByBuild(folder: string, files: readonly string[]): Promise<string[]> {
  const ignoreFiles = createRequire(await installDockerfileTools())('@balena/dockerignore')
  const ignored = ignoreFiles({ ignorecase: false }).add(readFileSync(join(folder, '.dockerignore'), 'utf8'))
  return files.filter((file) => !ignored.ignores(file))
}
