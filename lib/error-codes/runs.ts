/** Codes of runs: what a run was refused for, and how one ended. */

import { type ErrorEntry, later } from './server.ts'

export const runCodes = {
  app_name_mismatch: {
    status: 400,
    title: 'The address names another agent than the body',
    meaning: '`appName` is not the agent of the path.',
    action: 'Send the codename of the agent in the path, or leave `appName` out.',
  },
  user_mismatch: {
    status: 403,
    title: 'The user is another one than the caller',
    meaning:
      '`userId` is an agent or a person of the platform, a person who is no admin names another one, or the session has runs of ' +
      'another user of the same name: an agent that had the id before, or a name that was free.',
    action: 'Leave `userId` out, or send your own; send another `sessionId`, or none.',
  },
  agent_not_found: {
    status: 404,
    title: 'There is no such agent',
    meaning: 'No node of the nodes file has this path.',
    action: 'Correct the path, or add the node to the file.',
  },
  run_not_found: {
    status: 404,
    title: 'The run is not known',
    meaning: 'There is none with this id, or it is not one of the caller’s.',
    action: 'Send a run id as it was answered, with the credential that started the run.',
  },
  dispatch_not_found: {
    status: 404,
    title: 'The dispatch is not known',
    meaning: 'There is none with this id, or it is not one of the caller’s.',
    action: 'Send a `goalId` as it was answered, with the credential that started the dispatch.',
  },
  session_not_found: {
    status: 404,
    title: 'The session is not known',
    meaning:
      'The user has no session with this id, or the caller sees no run of it. It begins with its first message, and is kept as long as ' +
      'its runs.',
    action: 'Send the `sessionId` and the `userId` of a run, with the credential that started it.',
  },
  schedule_not_found: {
    status: 404,
    title: 'The schedule is not known',
    meaning: 'There is none with this id, or it is not one of the caller’s.',
    action: 'Send an id as it was answered, with the credential that made the schedule.',
  },
  too_many_schedules: {
    status: 409,
    title: 'The caller has as many schedules as it may',
    meaning: 'An owner has at most 100 schedules.',
    action: 'Delete one that is not needed: `GET /schedules` lists them.',
  },
  session_busy: {
    status: 409,
    title: 'The session has a run already',
    meaning:
      '`onBusy` is `reject`, or the session is to be deleted, and `activeRunId` was not over; or another message came while it was ' +
      'deleted.',
    action: 'Wait for that run, or cancel it; leave `onBusy` out to queue behind it.',
  },
  run_canceled: {
    status: 409,
    title: 'The run was canceled',
    action: 'Start another run when the work is still wanted.',
  },
  not_waiting: {
    status: 409,
    title: 'The run does not wait for an answer',
    meaning: 'It has not asked, was answered already, was canceled, or its question expired.',
    action: 'Read the run; only one that is `input_required` takes an answer.',
  },
  input_expired: {
    status: 504,
    title: 'Nobody answered the run’s question in time',
    meaning: 'The run waited for an answer for `INPUT_WAIT_S` seconds.',
    action: 'Send the message again, and answer its question.',
  },
  interrupted: {
    status: 409,
    title: 'A newer message took the place of the run',
    meaning: 'A message of the same session came with `onBusy` `interrupt`, and the run was canceled for it.',
    action: 'Follow the newer run; send the message again when its answer is still wanted.',
  },
  session_queue_full: {
    status: 429,
    title: 'Too many runs wait in the session',
    meaning: 'Ten runs of this agent, user and session are waiting.',
    ...later,
  },
  too_many_waiting: {
    status: 429,
    waits: true,
    title: 'Too many runs of the caller wait at the agent’s node',
    meaning:
      'A caller has at most 100 runs waiting at a node, in all sessions together; more would keep others from it.',
    action:
      'Send it again after `retryAfter` seconds, when some of them have ended, or cancel some: `GET /runs?agent=…&status=queued` lists them.',
  },
  agent_error: {
    status: 502,
    title: 'The agent failed',
    meaning: 'The agent raised an error or answered with one.',
    action: 'Read the events of the run; send another message when its cause is gone.',
  },
  node_lost: {
    status: 502,
    title: 'The node was lost in the middle of the run',
    meaning: 'The connection to the node, or its dispatcher, ended after the run had shown events.',
    action: 'Look what the run has done already before you send the message again.',
  },
  too_many_events: {
    status: 502,
    title: 'The run had too many events',
    meaning: 'A run may have 10,000 events and 32 MiB of them.',
    action: 'Ask for less at once.',
  },
  node_unavailable: {
    status: 503,
    title: 'The agent’s node does not answer',
    meaning:
      'The node was away for 30 seconds while the run waited, or did not take it when its turn had come; nothing of it was shown.',
    ...later,
  },
  run_timeout: {
    status: 504,
    title: 'The run took too long',
    meaning: 'A run may take 300 seconds, or what the nodes file allows its agent.',
    action: 'Ask for less at once.',
  },
} as const satisfies Record<string, ErrorEntry>
