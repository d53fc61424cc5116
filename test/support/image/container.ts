/**
 * Runs a command in a root file system of its own, as a container engine does: own mounts and processes, one of which is number
 * 1; a read-only root on request. In place of the base image there are this machine's /usr and the Node that runs the test. Ports are
 * those of the machine. Linux, as root.
 */

import {
  chmodSync,
  copyFileSync,
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readlinkSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import { runCommand, type ServerChild, startChild } from '../../../scripts/servers/children.ts'
import { eventually } from '../eventually.ts'

/** Whether this machine lets the test make mounts. */
export const canRunContainers = process.platform === 'linux' && process.getuid?.() === 0

/** How a process runs in it. */
export interface Process {
  args: readonly string[]
  env: Readonly<Record<string, string>>
  workdir: string
  /** Ids of user and group, `1000:1000`. Anybody but root has no capabilities and gets none. */
  user: string
}

interface Mounts {
  readOnly?: boolean
  /** Folders of this machine by their places in the container. */
  volumes?: Readonly<Record<string, string>>
}

const copied = ['/etc/resolv.conf', '/etc/hosts', '/etc/nsswitch.conf', '/etc/ssl', '/etc/ld.so.cache']

/** Fills an empty folder with what `node:24-bookworm-slim` has outside of /usr, which is mounted when something runs. */
export function makeBaseImage(root: string): void {
  for (const folder of ['usr', 'proc', 'dev', 'tmp', 'etc', 'root', 'home/node', 'var/tmp'])
    mkdirSync(join(root, folder), { recursive: true })
  chmodSync(join(root, 'tmp'), 0o1777)
  for (const link of ['bin', 'sbin', 'lib', 'lib64']) {
    if (lstatSync(`/${link}`, { throwIfNoEntry: false })?.isSymbolicLink())
      symlinkSync(readlinkSync(`/${link}`), join(root, link))
  }
  for (const path of copied)
    if (existsSync(path)) cpSync(path, join(root, path), { recursive: true, dereference: true })
  writeFileSync(join(root, 'etc/passwd'), 'root:x:0:0::/root:/bin/sh\nnode:x:1000:1000::/home/node:/bin/sh\n')
  writeFileSync(join(root, 'etc/group'), 'root:x:0:\nnode:x:1000:\n')
}

/** Runs it to its end and resolves with its output; rejects where it fails. A build: root may use npm with this user's settings. */
export async function runInside(root: string, one: Process, timeoutMs: number): Promise<string> {
  const settings = join(homedir(), '.npmrc')
  if (existsSync(settings)) copyFileSync(settings, join(root, 'root/.npmrc'))
  const cache = (await runCommand('npm', ['config', 'get', 'cache'], { timeoutMs })).trim()
  mkdirSync(cache, { recursive: true })
  mkdirSync(join(root, 'root/.npm'), { recursive: true })
  const env = { ...connectionSettings(), ...one.env }
  const { command, args } = await entering(root, { ...one, env }, { volumes: { '/root/.npm': cache } })
  return runCommand(command, args, { timeoutMs })
}

/** Proxies and certificates, which an engine hands to a build as well. */
function connectionSettings(): Record<string, string> {
  const names = /^(https?_proxy|no_proxy|node_extra_ca_certs|ssl_cert_file)$/i
  const found = Object.entries(process.env).filter(([name, value]) => names.test(name) && value)
  return Object.fromEntries(found) as Record<string, string>
}

export interface Container extends ServerChild {
  /** Runs another command in it; rejects where it fails. */
  exec(args: readonly string[]): Promise<string>
  /** Sends SIGTERM to process 1, as `docker stop` does. Resolves with what it ended with. */
  stop(): Promise<string>
}

const execMs = 300_000
/** Programs that process 1 is, one after the other, until it is the one that was asked for. */
const beforeIt = ['unshare', 'sh', 'chroot', 'setpriv', 'env']

/** Starts the process; it is killed with the test's process. */
export async function startContainer(
  root: string,
  one: Process,
  mounts: Mounts & { logFile: string },
): Promise<Container> {
  const { command, args } = await entering(root, one, mounts)
  // The shell adds the exit code to the log. The container ends with the shell.
  const shell = ['-c', 'setpriv --pdeathsig=KILL "$@"; echo "ended with $?"', 'sh', command, ...args]
  const child = startChild('sh', shell, { logFile: mounts.logFile })
  const first = await eventually('the process is there', () => {
    if (!child.running()) throw new Error(child.output())
    const unshare = childOf(child.pid)
    const inside = unshare === undefined ? undefined : childOf(unshare)
    if (inside === undefined) return undefined
    return beforeIt.includes(readFileSync(`/proc/${inside}/comm`, 'utf8').trim()) ? undefined : inside
  })
  return {
    ...child,
    exec: (words) =>
      runCommand(
        'nsenter',
        [`--target=${first}`, '--mount', '--pid', '--root', ...asUser({ ...one, args: words })],
        {
          timeoutMs: execMs,
        },
      ),
    async stop() {
      process.kill(first, 'SIGTERM')
      await eventually('it ends', () => !child.running())
      return child.output().trim().split('\n').at(-1)!
    },
  }
}

function childOf(pid: number): number | undefined {
  const [first] = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ')
  return first ? Number(first) : undefined
}

/** The command that makes the mounts and becomes the process. */
async function entering(root: string, one: Process, { readOnly = false, volumes = {} }: Mounts) {
  const npm = await runCommand('sh', ['-c', 'readlink -f "$(command -v npm)"'], { timeoutMs: execMs })
  const at = (path: string) => quoted(join(root, path))
  const script = [
    'set -eu',
    `mount --bind ${quoted(root)} ${quoted(root)}`,
    `mount --bind /usr ${at('usr')}`,
    // As in the image: Node and npm, and nothing else that this machine may have there.
    `mount -t tmpfs tmpfs ${at('usr/local')}`,
    `mkdir -p ${at('usr/local/bin')} ${at('usr/local/lib/node_modules/npm')}`,
    `touch ${at('usr/local/bin/node')}`,
    `mount --bind ${quoted(process.execPath)} ${at('usr/local/bin/node')}`,
    `mount --bind ${quoted(dirname(dirname(npm.trim())))} ${at('usr/local/lib/node_modules/npm')}`,
    `ln -s ../lib/node_modules/npm/bin/npm-cli.js ${at('usr/local/bin/npm')}`,
    `mount -o remount,bind,ro ${at('usr')}`,
    `mount --rbind /dev ${at('dev')}`,
    `mount -t proc proc ${at('proc')}`,
    ...(readOnly ? [`mount -t tmpfs -o mode=1777 tmpfs ${at('tmp')}`] : []),
    ...Object.entries(volumes).map(([inside, folder]) => `mount --bind ${quoted(folder)} ${at(inside)}`),
    ...(readOnly ? [`mount -o remount,bind,ro ${quoted(root)}`] : []),
    `exec chroot ${quoted(root)} "$@"`,
  ].join('\n')
  const namespaces = ['--mount', '--pid', '--fork', '--kill-child']
  return { command: 'unshare', args: [...namespaces, 'sh', '-c', script, 'sh', ...asUser(one)] }
}

function asUser({ args, env, workdir, user }: Process): string[] {
  const [uid, gid] = user.split(':')
  // A change of the user takes away that it ends with its parent.
  const rights = ['--no-new-privs', '--bounding-set=-all', '--inh-caps=-all', '--pdeathsig=KILL']
  const become =
    uid === '0' ? [] : ['/usr/bin/setpriv', `--reuid=${uid}`, `--regid=${gid}`, '--clear-groups', ...rights]
  const home = uid === '0' ? '/root' : '/home/node'
  const variables = Object.entries({ HOME: home, ...env }).map(([name, value]) => `${name}=${value}`)
  return [...become, '/usr/bin/env', '-i', `--chdir=${workdir}`, ...variables, ...args]
}

function quoted(word: string): string {
  return `'${word.replaceAll("'", "'\\''")}'`
}
