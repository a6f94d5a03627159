// The dialog in which people say what is wrong with an image. Enter flags it, Shift+Enter begins a new line.

export function listenToComments(dialog, text, onFlag) {
  dialog.addEventListener("close", () => {
    const {returnValue} = dialog, comment = text.value.trim();
    text.value = dialog.returnValue = "";
    if (returnValue === "flag") onFlag(comment || undefined);
  });
  text.addEventListener("keydown", event => {
    if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      dialog.close("flag");
    }
  });
}
