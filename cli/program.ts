/**
 * The `flotilla` program: every command with its help; runs one command line and says how it ended by its exit code: 0 done,
 * 1 refused or not found, 2 wrong use.
 */

import { styleText } from 'node:util'
import { type Argument, CommanderError, Command as Program } from 'commander'
import type { Environment } from '#lib/config.ts'
import { AppError } from '#lib/errors.ts'
import { visible } from '#lib/schema-faults.ts'
import type { Action } from '#operations/action.ts'
import { type Cli, createCli, describe, exitDone, exitWrongUse, reportError } from './cli.ts'
import { isLocalSearch, registerLocalSearch, runLocalSearch } from './commands/local-search.ts'
import { faultText, helpWidth, indented, platformVersion, printResult } from './output.ts'

type Register = (program: Program, cli: Cli) => void

/** Runs one command; `signal` aborts when the operator gave up. */
export async function runCommandLine(
  args: readonly string[],
  env: Environment,
  signal: AbortSignal,
): Promise<number> {
  if (isLocalSearch(args)) return runLocalSearch(args, env)
  const cli = createCli(env, signal)
  try {
    const words = withPlural(args)
    const program = await buildProgram(cli, words)
    await program.parseAsync(words, { from: 'user' })
    return cli.exitCode
  } catch (error) {
    const json = args.includes('--json')
    if (!(error instanceof CommanderError)) return reportError(error, json)
    if (error.exitCode === 0) return exitDone
    if (json) reportError(new AppError('bad_request', wrongUseOf(error)), json)
    return exitWrongUse
  }
}

/** In the order of the help: a group of it begins where `groups` names the noun. */
const nouns: Record<string, () => Promise<Register>> = {
  start: async () => (await import('./commands/start.ts')).registerStart,
  doctor: async () => (await import('./commands/doctor.ts')).registerDoctor,
  secrets: async () => {
    const { secretActions } = await import('#operations/secrets.ts')
    return noun('secrets', "the platform's own secrets in the database", secretActions)
  },
  agents: async () => {
    const { agentActions } = await import('#operations/agents/actions.ts')
    return noun('agents', 'who may use the platform, and with which key', agentActions)
  },
  'agent-keys': async () => {
    const { agentKeyActions } = await import('#operations/agent-keys.ts')
    return noun('agent-keys', 'keys that agents trade for tokens of the main API', agentKeyActions)
  },
  run: async () => (await import('./commands/run.ts')).registerRun,
  chat: async () => (await import('./commands/chat.ts')).registerChat,
  dispatch: async () => (await import('./commands/run.ts')).registerDispatch,
  runs: async () => (await import('./commands/runs.ts')).registerRuns,
  sessions: async () => {
    const { sessionActions } = await import('#operations/sessions.ts')
    return noun('sessions', 'messages and answers under one id', sessionActions)
  },
  schedules: async () => {
    const { scheduleActions } = await import('#operations/schedules.ts')
    return noun('schedules', 'messages that go to agents by the clock', scheduleActions)
  },
  node: async () => (await import('./commands/node.ts')).registerNode,
  notes: async () => {
    const { noteActions } = await import('#operations/notes.ts')
    return noun('notes', 'notes of agents and people, in threads', noteActions)
  },
  goals: async () => {
    const { goalActions } = await import('#operations/goals.ts')
    return noun('goals', 'goals of agents and people', goalActions)
  },
  remember: async () => noun('remember', '', await memoryOf('remember')),
  recall: async () => noun('recall', '', await memoryOf('recall')),
  collections: async () => {
    const { collectionActions } = await import('#operations/collections.ts')
    return noun('collections', 'where points are kept: made, listed, deleted', collectionActions)
  },
  stats: async () => noun('stats', '', (await import('#operations/stats.ts')).statsActions),
  rebuild: async () => {
    const { rebuildActions } = await import('#operations/rebuild.ts')
    return noun('rebuild', 'fill indexes from the log again, or make vectors of texts again', rebuildActions)
  },
  embed: async () => (await import('./commands/embed.ts')).registerEmbed,
  topics: async () => (await import('./commands/topics.ts')).registerTopics,
  groups: async () => {
    const { groupActions } = await import('#operations/groups.ts')
    return noun('groups', 'the reader groups of the log, and where they continue', groupActions)
  },
  lag: async () => (await import('./commands/lag.ts')).registerLag,
  'dead-letters': async () => {
    const { deadLetterActions } = await import('#operations/dead-letters/actions.ts')
    return noun('dead-letters', 'records of the log that a worker gave up on, and why', deadLetterActions)
  },
  webhooks: async () => (await import('./commands/webhooks.ts')).registerWebhooks,
  users: async () => {
    const { userActions } = await import('#operations/users.ts')
    return noun('users', 'people who may use the main API and the console', userActions)
  },
  backup: async () => (await import('./commands/backup.ts')).registerBackup,
  restore: async () => (await import('./commands/restore.ts')).registerRestore,
  export: async () => (await import('./commands/export.ts')).registerExport,
  sink: async () => (await import('./commands/sink.ts')).registerSink,
  search: async () => registerLocalSearch,
  tour: async () => (await import('./commands/tour.ts')).registerTour,
  demo: async () => (await import('./commands/demo.ts')).registerDemo,
  completion: async () => {
    const { registerCompletion } = await import('./commands/completion.ts')
    return (program, cli) => registerCompletion(program, () => buildProgram(cli, []), singulars)
  },
  version: async () => registerVersion,
}

/** The first noun of each group of the help. */
const groups: Readonly<Record<string, string>> = {
  start: 'Platform:',
  agents: 'Fleet:',
  notes: 'Memory:',
  topics: 'Log:',
  users: 'People:',
  backup: 'Data:',
  search: 'Local index, a file that needs no platform:',
  tour: 'Help:',
}

async function memoryOf(name: string): Promise<readonly Action[]> {
  const { memoryActions } = await import('#operations/memory.ts')
  return memoryActions.filter((action) => action.name === name)
}

/** Whose verbs are all actions; what mounts them is loaded with the noun. */
async function noun(name: string, text: string, actions: readonly Action[]): Promise<Register> {
  const { mountActions } = await import('./mount-actions.ts')
  return (program, cli) => mountActions(program.command(name).description(text), cli, actions)
}

/** `flotilla agent list` means `flotilla agents list`. */
const singulars: Readonly<Record<string, string>> = {
  agent: 'agents',
  'agent-key': 'agent-keys',
  user: 'users',
  note: 'notes',
  goal: 'goals',
  schedule: 'schedules',
  session: 'sessions',
  topic: 'topics',
  group: 'groups',
  secret: 'secrets',
  webhook: 'webhooks',
  'dead-letter': 'dead-letters',
  collection: 'collections',
}

function registerVersion(program: Program): void {
  const command = program.command('version').description('which version this is')
  describe(command, 'flotilla version').action(({ json }: { json?: boolean }) => {
    printResult(json, { version: platformVersion() }, platformVersion)
  })
}

/** Loads only the command that the first argument names, because loading all takes long; all of them for the help. */
export async function buildProgram(cli: Cli, args: readonly string[]): Promise<Program> {
  const program = new Program('flotilla')
    .description(
      'The platform under a fleet of AI agents: identity, shared vector memory, and the log beneath.',
    )
    .version(platformVersion(), '--version')
    // They quote what was typed, which may be an id of somebody else. Commands that are added take it over.
    .configureOutput({
      outputError: (text, write) => write(`${faultText(indented(plainUse(text.trimEnd())))}\n`),
      getOutHelpWidth: () => helpWidth(process.stdout),
      getErrHelpWidth: () => helpWidth(process.stderr),
    })
    .configureHelp({
      styleTitle: (text) => styleText('bold', text, { validateStream: false }),
      // In the list of all commands their names suffice.
      subcommandTerm: (command) =>
        [
          command.name(),
          ...(command.parent?.parent ? command.registeredArguments.map(argumentTerm) : []),
        ].join(' '),
    })
    .addHelpText(
      'after',
      '\nCommands are handed to the platform that runs on FLOTILLA_HOME; where none runs,' +
        '\nthey open its engines themselves. COMMAND --help shows its verbs and options.' +
        '\nExit codes: 0 done, 1 refused or not found, 2 wrong use.' +
        '\n\nExample:\n  $ flotilla start\n  $ flotilla agents provision --agent-id scout',
    )
  const first = args[0] ?? ''
  for (const name of Object.hasOwn(nouns, first) ? [first] : Object.keys(nouns)) {
    if (groups[name] !== undefined) program.commandsGroup(groups[name])
    const register = await nouns[name]!()
    register(program, cli)
  }
  // In the group of the last.
  program.helpCommand(true)
  throwInsteadOfExit(program, args.includes('--json'))
  return program
}

function argumentTerm(argument: Argument): string {
  const name = `${argument.name()}${argument.variadic ? '...' : ''}`
  return argument.required ? `<${name}>` : `[${name}]`
}

/** So that main chooses the exit code; a noun without a verb shows its help and counts as wrong use. With --json the document says it. */
function throwInsteadOfExit(program: Program, json: boolean): void {
  program.exitOverride().showHelpAfterError('(--help shows how it is used)')
  if (json) program.configureOutput({ writeErr() {} })
  for (const command of program.commands) throwInsteadOfExit(command, json)
}

/** Commander has written its message to standard error already. */
function wrongUseOf({ code, message }: CommanderError): string {
  if (code === 'commander.help') return 'Say which command is meant: --help lists them.'
  return plainUse(message).replace(/^error: /, '')
}

const faultyOption = /^error: option '(?:-\w, )?(--[\w-]+)[^']*' argument '(.*)' is invalid\. (.*?)\.?$/s
const faultyArgument = /^error: command-argument value '(.*)' is invalid for argument '(.*?)'\. (.*?)\.?$/s

/** Commander's words for a faulty value in ours: `--limit is "0": a whole number from 1 to 100`. */
function plainUse(text: string): string {
  const option = faultyOption.exec(text)
  const [, value, argument, said] = faultyArgument.exec(text) ?? []
  const [name, given, rule] = option ? option.slice(1) : [argument, value, said]
  if (name === undefined || rule === undefined) return text
  const phrase = rule.replace(/^It must be /, '').replace(/^Allowed choices are /, 'one of ')
  return `error: ${name} is ${visible(given)}: ${phrase}`
}

/** `flotilla agent list` means `flotilla agents list`. */
function withPlural([noun = '', ...rest]: readonly string[]): string[] {
  return noun === '' ? rest : [Object.hasOwn(singulars, noun) ? singulars[noun]! : noun, ...rest]
}
