/** `flotilla embed`: a text's vector by the platform's embedder. */

import type { Command as Program } from 'commander'
import { engineSettings, openEngines } from '#engines/open.ts'
import { loadConfig } from '#lib/config.ts'
import { homeOf } from '#runtime/start/settings.ts'
import { type Cli, describe } from '../cli.ts'
import { line, printResult } from '../output.ts'

const shownComponents = 8

export function registerEmbed(program: Program, cli: Cli): void {
  const embed = program
    .command('embed')
    .argument('<text>', 'the text')
    .summary("a text's vector, by the platform's embedder")
    .description("a vector of 1536 numbers for a text, by the platform's embedder")
  describe(embed, 'flotilla embed "where is the harbour master" --json').action(
    async (text: string, options: { json?: boolean }) => {
      const { model, vector } = await embedText(cli, text)
      const shown = vector.slice(0, shownComponents).map((component) => component.toFixed(4))
      const result = { model, dimension: vector.length, embedding: vector }
      printResult(options.json, result, () => {
        return line`${model}, ${vector.length} components: ${shown.join(' ')} …`
      })
    },
  )
}

/** Opens only the embedder, so it needs no data directory. */
async function embedText(cli: Cli, text: string): Promise<{ model: string; vector: number[] }> {
  const { createLog } = await import('#runtime/observe/log.ts')
  const opened = await openEngines({
    settings: loadConfig(engineSettings, cli.env),
    needs: ['embedder'],
    directory: homeOf(cli.env),
    schemasDirectory: '',
    clientId: 'flotilla-command',
    log: createLog({ level: 'warn' }),
  })
  try {
    const embedder = opened.engines.embedder!
    const [vector] = await embedder.embed([text])
    return { model: embedder.model, vector: [...vector!] }
  } finally {
    await opened.close()
  }
}
