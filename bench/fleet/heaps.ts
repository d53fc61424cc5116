/** Sizes of a process's JavaScript heaps after a collection, asked over Node's inspector: one for each thread. */

import { type Ask, openInspector } from '../inspector.ts'

export interface Heap {
  /** `main`, or the name of a thread. */
  thread: string
  /** Bytes of live objects. Buffers outside of the heap are part of the memory of the process. */
  bytes: number
}

/** Collects in every thread of the process and reads how much is left. */
export async function readHeaps(inspectorUrl: string): Promise<Heap[]> {
  const inspected = await openInspector(inspectorUrl)
  try {
    const heaps: Heap[] = []
    for (const { name, ask } of inspected.threads) heaps.push(await readHeap(name, ask))
    return heaps
  } finally {
    inspected.close()
  }
}

async function readHeap(thread: string, ask: Ask): Promise<Heap> {
  await ask('HeapProfiler.enable')
  // Objects released by finalizers go with the second collection.
  for (let times = 0; times < 2; times++) await ask('HeapProfiler.collectGarbage')
  const { usedSize: bytes } = await ask<{ usedSize: number }>('Runtime.getHeapUsage')
  await ask('HeapProfiler.disable')
  return { thread, bytes }
}
