/** `flotilla users`: the people who may use the main API and the console. */

import { Argument, Option, type Command as Program } from 'commander'
import {
  type AddedUser,
  addUserOperation,
  listUsersOperation,
  removeUserOperation,
  setUserRoleOperation,
  type UserView,
} from '#operations/users.ts'
import { type Access, accessLevels } from '#services/access/agents/agents.ts'
import { type Cli, describe } from '../cli.ts'
import { fields, line, table } from '../output.ts'

interface AddOptions {
  name?: string
  role?: Access
  oidcSubject?: string
  json?: boolean
}

export function registerUsers(program: Program, cli: Cli): void {
  const users = program.command('users').description('people who may use the main API and the console')
  registerAdd(users, cli)
  const list = users.command('list').description('all people')
  describe(list, 'flotilla users list').action(async ({ json }: { json?: boolean }) => {
    await cli.run(listUsersOperation, {}, { json, render: renderList })
  })
  const role = users
    .command('role')
    .argument('<user>', 'e-mail or uid')
    .addArgument(new Argument('<role>').choices(accessLevels))
    .description('what the person may do; it acts everywhere when the command returns')
  describe(role, 'flotilla users role ana@example.com admin').action(
    async (user: string, value: Access, { json }: { json?: boolean }) => {
      const render = (person: UserView) => line`${person.email} is ${person.role}`
      await cli.run(setUserRoleOperation, { user, role: value }, { json, render })
    },
  )
  const remove = users
    .command('remove')
    .argument('<user>', 'e-mail or uid')
    .description('remove the person; sessions and open streams end')
  describe(remove, 'flotilla users remove ana@example.com').action(
    async (user: string, { json }: { json?: boolean }) => {
      await cli.run(removeUserOperation, { user }, { json, render: ({ email }) => line`${email} is removed` })
    },
  )
}

function registerAdd(users: Program, cli: Cli): void {
  const add = users
    .command('add')
    .argument('<email>')
    .description('add a person; prints a password that has to be replaced at the first sign-in')
    .option('--name <name>', 'what people read (default: the part before the @)')
    .addOption(new Option('--role <role>', 'what the person may do (default: member)').choices(accessLevels))
    .option(
      '--oidc-subject <subject>',
      'who the person is at OIDC_ISSUER or Firebase; then there is no password',
    )
  describe(add, 'flotilla users add ana@example.com --role viewer').action(
    async (email: string, { json, ...options }: AddOptions) => {
      await cli.run(addUserOperation, { email, ...options }, { json, render: renderAdded })
    },
  )
}

function renderAdded({ uid, email, name, role, oidc_subject, one_time_password }: AddedUser): string {
  const how = one_time_password === null ? { oidc_subject } : { one_time_password }
  return fields({ uid, email, name, role, ...how })
}

function renderList({ users }: { users: UserView[] }): string {
  const rows = users.map((user) => [
    user.email,
    user.name,
    user.role,
    user.must_change_password ? 'one-time password' : user.signs_in_with.join(', ') || null,
    user.signed_in_at,
    user.uid,
  ])
  return table(['e-mail', 'name', 'role', 'signs in with', 'last sign-in', 'uid'], rows)
}
