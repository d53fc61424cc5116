/** Processor time and memory of processes, read from /proc: so these benches run on Linux alone. */

import { readdirSync, readFileSync } from 'node:fs'

/** The unit of Linux's counts: USER_HZ is 100 on every machine that Node runs on. */
const ticksPerSecond = 100

/** Seconds of the processor that a process, its children, and those of them that have ended have used so far. */
export function processorSeconds(pid: number): number {
  const own = readTimes(pid)
  if (!own) throw new Error(`process ${pid} is not there, or this system has no /proc`)
  return (own.ended + ticksOf(pid, childrenByParent())) / ticksPerSecond
}

/**
 * Seconds that the threads of processes have used so far, by what their names begin with. Threads that have ended are not
 * counted.
 */
export function threadSeconds(pids: readonly number[]): Map<string, number> {
  const seconds = new Map<string, number>()
  for (const pid of pids) {
    for (const id of readdirSync(`/proc/${pid}/task`)) {
      const times = readTimes(`${pid}/task/${id}`)
      if (!times) continue
      const name = times.name.replace(/[-# ]*\d.*$/, '')
      seconds.set(name, (seconds.get(name) ?? 0) + times.running / ticksPerSecond)
    }
  }
  return seconds
}

/** Seconds of those children of a process, and of theirs, that have ended. */
export function endedSeconds(pid: number): number {
  return (readTimes(pid)?.ended ?? 0) / ticksPerSecond
}

/** RSS of a process alone. */
export function ownResidentBytes(pid: number): number {
  return kilobytesIn(`/proc/${pid}/status`, 'VmRSS') * 1024
}

/** RSS of a process and of all below it, as `ps` shows it for each. */
export function residentBytes(pid: number): number {
  return sumOfTree(pid, ownResidentBytes)
}

/**
 * Memory of a process and of all below it, each shared page divided among those that share it: for servers whose
 * processes share most of what they have, such as Postgres.
 */
export function proportionalBytes(pid: number): number {
  return sumOfTree(pid, (one) => kilobytesIn(`/proc/${one}/smaps_rollup`, 'Pss') * 1024)
}

/** Bytes that a process and all below it have given to disks. */
export function writtenBytes(pid: number): number {
  return sumOfTree(pid, (one) => {
    try {
      return Number(/^write_bytes: (\d+)/m.exec(readFileSync(`/proc/${one}/io`, 'utf8'))?.[1] ?? 0)
    } catch {
      return 0
    }
  })
}

function sumOfTree(pid: number, read: (pid: number) => number): number {
  const children = childrenByParent()
  const sum = (one: number): number =>
    read(one) + (children.get(one) ?? []).reduce((total, child) => total + sum(child), 0)
  return sum(pid)
}

/** 0 of a process that has ended. */
function kilobytesIn(file: string, name: string): number {
  try {
    return Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(readFileSync(file, 'utf8'))?.[1] ?? 0)
  } catch {
    return 0
  }
}

function ticksOf(pid: number, children: Map<number, number[]>): number {
  const below = (children.get(pid) ?? []).reduce((sum, child) => sum + ticksOf(child, children), 0)
  return (readTimes(pid)?.running ?? 0) + below
}

function childrenByParent(): Map<number, number[]> {
  const children = new Map<number, number[]>()
  for (const name of readdirSync('/proc')) {
    const times = /^\d+$/.test(name) ? readTimes(Number(name)) : null
    if (times) children.set(times.parent, [...(children.get(times.parent) ?? []), Number(name)])
  }
  return children
}

/** See proc_pid_stat(5): the fields behind the name, which may hold spaces and brackets. */
function readTimes(
  pid: number | string,
): { name: string; parent: number; running: number; ended: number } | null {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8')
    const fields = text
      .slice(text.lastIndexOf(')') + 2)
      .split(' ')
      .map(Number)
    const [parent = 0, user = 0, system = 0, endedUser = 0, endedSystem = 0] = [1, 11, 12, 13, 14].map(
      (n) => fields[n],
    )
    const name = text.slice(text.indexOf('(') + 1, text.lastIndexOf(')'))
    return { name, parent, running: user + system, ended: endedUser + endedSystem }
  } catch {
    return null
  }
}
