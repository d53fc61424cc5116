/** `flotilla chat` in a process of its own, and agents to talk with. */

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { stringify } from 'yaml'
import { eventually } from './eventually.ts'
import { spawnFlotilla } from './flotilla-process.ts'
import { openScriptedNode, type Script, type ScriptedNode } from './scripted-node.ts'
import { temporaryFolder } from './temporary.ts'

/** A data directory, and the nodes file of these agents. */
export async function openTalkers(
  scripts: Record<string, Script>,
): Promise<{ node: ScriptedNode; home: string; file: string }> {
  const node = await openScriptedNode(scripts)
  onTestFinished(() => node.close())
  const home = temporaryFolder()
  const file = join(home, 'my-nodes.yaml')
  const entries = Object.keys(scripts).map((slug) => [slug, { url: node.url, codename: slug.toUpperCase() }])
  writeFileSync(file, stringify({ nodes: Object.fromEntries(entries) }))
  return { node, home, file }
}

/** Writes lines to it, and waits for what it prints. */
export function openChat(home: string, ...args: string[]) {
  const chat = spawnFlotilla(['chat', ...args], { FLOTILLA_HOME: home }, { input: true })
  const says = (text: string | RegExp) =>
    eventually(
      `the chat says ${text}`,
      () => {
        const all = chat.stdout()
        return typeof text === 'string' ? all.includes(text) : text.test(all)
      },
      60_000,
    )
  return { ...chat, says, line: (text: string) => chat.child.stdin!.write(`${text}\n`) }
}
