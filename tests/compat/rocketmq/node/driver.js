// Drives ali-ons, a RocketMQ client for Node, from the command line, as the Java driver does: one subcommand, options as
// --name value, one JSON object per line on standard output. A consumer runs until its standard input ends.
'use strict';

const { produce } = require('./produce');
const { push } = require('./push');
const { parsed } = require('./options');
const { print } = require('./messages');

const COMMANDS = { produce, push };

async function main(args) {
  const command = COMMANDS[args[0]];
  if (!command) throw new Error(`usage: driver.js ${Object.keys(COMMANDS).join('|')} --namesrv HOST:PORT ...`);
  await command(parsed(args.slice(1)));
  print({ done: true });
}

main(process.argv.slice(2)).then(
  () => process.exit(0), // the client keeps timers
  error => {
    console.error(error);
    process.exit(1);
  }
);
