/** Sets the access rules of docs/reading-topics.md on a cluster: the commands of the page, as they are written there. */

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { runCommand } from '../../scripts/servers/children.ts'
import { installKafka } from '../../scripts/servers/install.ts'

const page = new URL('../../docs/reading-topics.md', import.meta.url)
const command = 'kafka-acls.sh'

/** `address` is one where everybody may do everything. */
export async function setAccessRules(address: string): Promise<void> {
  const kafka = await installKafka()
  const folder = mkdtempSync(join(tmpdir(), 'fl-'))
  writeFileSync(join(folder, 'admin.properties'), '')
  const java = ['-Xmx128m', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1', '-cp', `${kafka}/*`]
  try {
    await Promise.all(
      accessCommands().map((line) => {
        const words = line.replace('"$SUPER"', address).split(/\s+/).slice(1)
        const args = [...java, 'org.apache.kafka.tools.AclCommand', ...words]
        return runCommand('java', args, { cwd: folder, timeoutMs: 60_000 })
      }),
    )
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

function accessCommands(): string[] {
  const blocks = [...readFileSync(page, 'utf8').matchAll(/^```sh\n(.*?)^```$/gms)].map(([, block]) => block!)
  return blocks
    .flatMap((block) => block.replaceAll('\\\n', ' ').split('\n'))
    .filter((line) => line.startsWith(command))
}
